"""What tests of images and of the stack share: an engine that answers, and images that are made once.

Where no engine answers they are left out with a word; under CI they fail.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.runtime.docker.engine import Engine
from egress.runtime.docker.images import products
from egress.runtime.docker.images.demo import demo_image
from egress.runtime.errors import EngineUnavailableError
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.container.stack import Stack


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
def demo(answering: Engine | None) -> str:
    return "" if answering is None else demo_image(answering)


@pytest.fixture(scope="session")
def proxy(answering: Engine | None, tmp_path_factory: pytest.TempPathFactory) -> str:
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return products.proxy_image(answering)


@pytest.fixture(scope="session")
def sandbox(answering: Engine | None, tmp_path_factory: pytest.TempPathFactory) -> str:
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return products.sandbox_image(answering)


@contextmanager
def one_at_a_time(factory: pytest.TempPathFactory) -> Iterator[None]:
    """Among the processes that run tests side by side, the first makes an image and the others find it."""
    with (factory.getbasetemp().parent / "egress-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def standing(
    answering: Engine | None, demo: str, proxy: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack | None]:
    if answering is None:
        yield None
        return
    with Stack(tmp_path_factory.mktemp("stack"), proxy, demo) as stack:
        yield stack


@pytest.fixture
def stack(engine: Engine, standing: Stack | None) -> Stack:
    """One for all tests of a file: each leaves it as it was."""
    assert standing is not None
    return standing
