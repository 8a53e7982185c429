"""What tests with programs of others share: the programs, and one `egress up` of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images
from tests.container.conftest import one_at_a_time
from tests.peers.fetched import PEERS
from tests.peers.up_lab import UpLab, up_lab
from tests.runtime.conftest import answering, engine
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["answering", "engine", "namespaces", "refusal"]


@pytest.fixture
def peers(request: pytest.FixtureRequest) -> None:
    """That they were fetched."""
    PEERS.require(request)


@pytest.fixture(scope="module")
def shared_lab(refusal: str) -> Iterator[UpLab | None]:
    if refusal:
        yield None
        return
    with up_lab("namespace") as lab:
        yield lab


@pytest.fixture
def lab(namespaces: None, peers: None, shared_lab: UpLab | None) -> UpLab:
    """One `egress up` with namespaces for all tests of a file."""
    assert shared_lab is not None
    return shared_lab


@pytest.fixture
def docker_lab(
    engine: DockerEngine, peers: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UpLab]:
    """One `egress up` with Docker, and the sandbox image of the product."""
    with one_at_a_time(tmp_path_factory):
        image = product_images.sandbox_image(engine)
    with up_lab("docker", image) as lab:
        yield lab
