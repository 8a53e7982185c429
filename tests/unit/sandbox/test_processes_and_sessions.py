"""The parts of a sandbox that are found again: in a fleet by every handle, without one by this handle."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.runtime.errors import SandboxNotFoundError, UnsupportedError
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.local_runtime import LocalRuntime


def test_a_runtime_alone_finds_sessions_by_one_handle(runtime: LocalRuntime, box: Sandbox) -> None:
    with box.session("work") as session:
        session.exec("A=1")
        assert box.session("work").exec("echo $A").text == "1\n"
        assert [each.id for each in box.sessions()] == ["work"]
        assert Sandbox(runtime, box.name).sessions() == []
    assert box.sessions() == []
    with pytest.raises(UnsupportedError):
        box.processes()


def test_a_fleet_finds_them_by_every_handle(tmp_path: Path) -> None:
    fleet = Fleet(LocalRuntime(tmp_path), tick=None)
    box = Sandbox.create(name="one", image="any", runtime=fleet)
    session = box.session("work")
    assert repr(session) == "<Session work in 'one', open>"
    assert Sandbox(fleet, "one").session("work").status() == session.status()
    # Without a name each has its own.
    assert box.session().id != box.session().id
    with pytest.raises(SandboxNotFoundError):
        Sandbox(fleet, "other").session()
    fleet.close()
