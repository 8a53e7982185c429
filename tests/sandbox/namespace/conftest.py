"""The handle on real namespaces, behind a real proxy: the house of the runtime's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox import capabilities
from egress.sandbox.handle import Sandbox
from tests.runtime.namespace.conftest import house, namespaces, refusal, shared
from tests.runtime.namespace.namespace_lab import NamespaceLab

__all__ = ["house", "namespaces", "refusal", "shared"]


@pytest.fixture
def box(house: NamespaceLab) -> Iterator[Sandbox]:
    # The fleet is not closed: the runtime goes on with the house.
    fleet = Fleet(house.runtime, about=FleetInfo(kind="namespace"), tick=None)
    with Sandbox.create(image=capabilities.HOST_IMAGE, runtime=fleet) as box:
        yield box


@pytest.fixture
def small(house: NamespaceLab) -> Iterator[Sandbox]:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="namespace"), tick=None)
    with Sandbox.create(image=capabilities.HOST_IMAGE, runtime=fleet, size="2m", temporary=1) as box:
        yield box
