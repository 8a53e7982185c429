"""The handle on real containers, behind a real proxy: the house of the runtime's own tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from egress.errors import EgressError
from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox.handle import Sandbox
from tests.runtime.conftest import answering, engine, house, image, made_image, shared
from tests.runtime.docker_lab import DockerLab

__all__ = ["answering", "engine", "house", "image", "made_image", "shared"]

EMPTIED = 'find . /tmp -mindepth 1 -delete && test -z "$(find . /tmp -mindepth 1)"'


class UsedSandbox:
    """A sandbox that one test after the other uses: a container takes two seconds to come and go."""

    def __init__(self, house: DockerLab) -> None:
        self._house = house
        self._box: Sandbox | None = None

    def take(self) -> Sandbox:
        """Return the sandbox, as empty as a new one."""
        if self._box is None or not self._is_emptied(self._box):
            self.close()
            # The fleet is not closed: the runtime goes on with the house.
            fleet = Fleet(self._house.runtime, about=FleetInfo(kind="docker"), tick=None)
            self._box = Sandbox.create(image=self._house.image, runtime=fleet)
        return self._box

    def close(self) -> None:
        if self._box is not None:
            self._box.delete()
            self._box = None

    def _is_emptied(self, box: Sandbox) -> bool:
        with contextlib.suppress(EgressError):
            return not box.sessions() and box.exec(EMPTIED).exit_code == 0
        return False


@pytest.fixture(scope="module")
def used(shared: DockerLab | None) -> Iterator[UsedSandbox]:
    assert shared is not None
    used = UsedSandbox(shared)
    yield used
    used.close()


@pytest.fixture
def box(house: DockerLab, used: UsedSandbox) -> Sandbox:
    return used.take()


@pytest.fixture
def small(house: DockerLab) -> Iterator[Sandbox]:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    with Sandbox.create(image=house.image, runtime=fleet, size="2m", temporary=1) as box:
        yield box
