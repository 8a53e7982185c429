"""The handle on real containers, behind a real proxy: the house of the runtime's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox.handle import Sandbox
from tests.runtime.conftest import answering, engine, house, image, made_image, shared
from tests.runtime.docker_lab import DockerLab

__all__ = ["answering", "engine", "house", "image", "made_image", "shared"]


@pytest.fixture
def box(house: DockerLab) -> Iterator[Sandbox]:
    # The fleet is not closed: the runtime goes on with the house.
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    with Sandbox.create(image=house.image, runtime=fleet) as box:
        yield box


@pytest.fixture
def small(house: DockerLab) -> Iterator[Sandbox]:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    with Sandbox.create(image=house.image, runtime=fleet, size="2m", temporary=1) as box:
        yield box
