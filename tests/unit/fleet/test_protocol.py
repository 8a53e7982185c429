"""What users of a fleet are told, and that both kinds of fleet can do all of it."""

from __future__ import annotations

import inspect

import pytest

from egress.fleet.fleet import Fleet
from egress.fleet.protocol import FleetInfo, SandboxFleet
from egress.fleet.remote import RemoteRuntime


def test_one_line_says_what_why_and_what_not() -> None:
    about = FleetInfo(kind="docker", why="engine 20 answers", cautions=("this is not kept", "nor that"))
    assert about.line == "runtime: docker (engine 20 answers). Warning: this is not kept; nor that"
    assert FleetInfo(kind="fake", why="asked").line == "runtime: fake (asked)"


@pytest.mark.parametrize("kind", [Fleet, RemoteRuntime])
def test_both_can_do_all_of_it(kind: type[Fleet | RemoteRuntime]) -> None:
    wanted = {name for name in dir(SandboxFleet) if not name.startswith("_")}
    wanted -= {"about", "tracked", "policies", "sessions"}
    for name in wanted:
        promised, kept = getattr(SandboxFleet, name), getattr(kind, name)
        assert list(inspect.signature(promised).parameters) == list(inspect.signature(kept).parameters), name
