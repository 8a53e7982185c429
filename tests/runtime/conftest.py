"""What tests with a real engine share.

Where none answers they are left out with a word; under CI they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import EngineUnavailableError
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.runtime import docker_lab as houses
from tests.runtime.docker_lab import DockerLab


@pytest.fixture(scope="session")
def answering() -> DockerEngine | None:
    try:
        return DockerEngine()
    except EngineUnavailableError:
        return None


@pytest.fixture
def engine(answering: DockerEngine | None, request: pytest.FixtureRequest) -> DockerEngine:
    if answering is None:
        if UNDER_CI:
            pytest.fail("no container engine answers: .ci/run starts one with scripts/engine", pytrace=False)
        request.node.user_properties.append((LEFT_OUT, "a container engine (sudo sh scripts/engine)"))
        pytest.skip("needs a container engine")
    return answering


@pytest.fixture(scope="session")
def made_image(answering: DockerEngine | None) -> str:
    return houses.image(answering) if answering is not None else ""


@pytest.fixture
def image(engine: DockerEngine, made_image: str) -> str:
    return made_image


@pytest.fixture(scope="module")
def shared(
    answering: DockerEngine | None, made_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerLab | None]:
    if answering is None:
        yield None
        return
    with DockerLab(tmp_path_factory.mktemp("house"), made_image) as house:
        yield house


@pytest.fixture
def house(engine: DockerEngine, shared: DockerLab | None) -> DockerLab:
    """One for all tests of a file: they leave no sandbox behind that others could mind."""
    assert shared is not None
    return shared


@pytest.fixture
def own_house(image: str, tmp_path: Path) -> Iterator[DockerLab]:
    """One for a single test, which may do with it what it likes."""
    with DockerLab(tmp_path, image) as house:
        yield house
