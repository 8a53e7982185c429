"""What tests with a real engine share.

Where none answers they are left out with a word; under CI they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.docker.engine import Engine
from egress.runtime.errors import EngineUnavailableError
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.runtime import house as houses
from tests.runtime.house import House


@pytest.fixture(scope="session")
def answering() -> Engine | None:
    try:
        return Engine()
    except EngineUnavailableError:
        return None


@pytest.fixture
def engine(answering: Engine | None, request: pytest.FixtureRequest) -> Engine:
    if answering is None:
        if UNDER_CI:
            pytest.fail("no container engine answers: .ci/run starts one with scripts/engine", pytrace=False)
        request.node.user_properties.append((LEFT_OUT, "a container engine (sudo sh scripts/engine)"))
        pytest.skip("needs a container engine")
    return answering


@pytest.fixture(scope="session")
def made_image(answering: Engine | None) -> str:
    return houses.image(answering) if answering is not None else ""


@pytest.fixture
def image(engine: Engine, made_image: str) -> str:
    return made_image


@pytest.fixture(scope="module")
def shared(
    answering: Engine | None, made_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House | None]:
    if answering is None:
        yield None
        return
    with House(tmp_path_factory.mktemp("house"), made_image) as house:
        yield house


@pytest.fixture
def house(engine: Engine, shared: House | None) -> House:
    """One for all tests of a file: they leave no sandbox behind that others could mind."""
    assert shared is not None
    return shared


@pytest.fixture
def own_house(image: str, tmp_path: Path) -> Iterator[House]:
    """One for a single test, which may do with it what it likes."""
    with House(tmp_path, image) as house:
        yield house
