"""The handle on real namespaces, behind a real proxy: the house of the runtime's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import About
from egress.sandbox import beyond
from egress.sandbox.handle import Sandbox
from tests.runtime.namespace.conftest import house, namespaces, refusal, shared
from tests.runtime.namespace.house import House

__all__ = ["house", "namespaces", "refusal", "shared"]


@pytest.fixture
def box(house: House) -> Iterator[Sandbox]:
    # The fleet is not closed: the runtime goes on with the house.
    fleet = Fleet(house.runtime, about=About(kind="namespace"), tick=None)
    with Sandbox.create(image=beyond.HOST, runtime=fleet) as box:
        yield box


@pytest.fixture
def small(house: House) -> Iterator[Sandbox]:
    fleet = Fleet(house.runtime, about=About(kind="namespace"), tick=None)
    with Sandbox.create(image=beyond.HOST, runtime=fleet, size="2m", temporary=1) as box:
        yield box
