"""What tests of images and of the stack share: an engine that answers, and images that are made once.

Where no engine answers they are left out with a word; under CI they fail.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images
from egress.runtime.docker.images.demo import demo_image
from egress.runtime.errors import EngineUnavailableError
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.container.compose_stack import ComposeStack


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
def demo(answering: DockerEngine | None) -> str:
    return "" if answering is None else demo_image(answering)


@pytest.fixture(scope="session")
def proxy(answering: DockerEngine | None, tmp_path_factory: pytest.TempPathFactory) -> str:
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return product_images.proxy_image(answering)


@pytest.fixture(scope="session")
def sandbox(answering: DockerEngine | None, tmp_path_factory: pytest.TempPathFactory) -> str:
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return product_images.sandbox_image(answering)


@pytest.fixture(scope="session")
def agents(answering: DockerEngine | None, sandbox: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return product_images.agents_image(answering, sandbox)


@contextmanager
def one_at_a_time(factory: pytest.TempPathFactory) -> Iterator[None]:
    """Among the processes that run tests side by side, the first makes an image and the others find it."""
    with (factory.getbasetemp().parent / "egress-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def standing(
    answering: DockerEngine | None, demo: str, proxy: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComposeStack | None]:
    if answering is None:
        yield None
        return
    with ComposeStack(tmp_path_factory.mktemp("stack"), proxy, demo) as stack:
        yield stack


@pytest.fixture
def stack(engine: DockerEngine, standing: ComposeStack | None) -> ComposeStack:
    """One for all tests of a file: each leaves it as it was."""
    assert standing is not None
    return standing
