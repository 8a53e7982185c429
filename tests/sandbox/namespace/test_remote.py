"""What the handle promises holds where its sandboxes are another process's, behind a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox import capabilities
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import served
from tests.runtime.namespace.namespace_lab import NamespaceLab
from tests.sandbox import lasting_cases, network_cases
from tests.unit.sandbox.contract import CASES, Case

EVERY = (
    *(case for topic in CASES.values() for case in topic),
    *network_cases.CASES,
    *lasting_cases.CASES,
)


@pytest.fixture
def remote_box(house: NamespaceLab) -> Iterator[Sandbox]:
    # The fleet is not closed: the runtime goes on with the house.
    fleet = Fleet(house.runtime, about=FleetInfo(kind="namespace"), tick=None)
    with served(fleet) as remote, Sandbox.create(image=capabilities.HOST_IMAGE, runtime=remote) as box:
        yield box


@pytest.mark.parametrize("promise", EVERY, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, remote_box: Sandbox) -> None:
    promise(remote_box)
