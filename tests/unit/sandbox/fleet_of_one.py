"""A fleet in this process with one sandbox in it, named `one`, which runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from egress.fleet.fleet import Fleet
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Spec


@contextmanager
def fleet_of_one(runtime: Runtime) -> Iterator[Fleet]:
    """Nothing happens in it by the clock."""
    with closing(Fleet(runtime, tick=None)) as fleet:
        fleet.create(Spec(name="one", image="any"))
        fleet.start("one")
        yield fleet
