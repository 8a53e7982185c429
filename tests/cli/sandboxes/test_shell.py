"""`egress shell`: in a sandbox that is there, or in a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.runtime.fake import Call, FakeRuntime
from egress.runtime.spec import Spec
from tests.cli.sandboxes.conftest import serving

Captured = pytest.CaptureFixture[str]


def shell(call: Call) -> int:
    call.write(b"a shell reads: " + call.read() + b"\n")
    return 4


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    with serving(FakeRuntime(programs={"/bin/sh": shell}), folder) as found:
        yield found


def test_a_shell_in_one_that_is_there(fleet: Fleet, folder: Path, capfd: Captured) -> None:
    fleet.create(Spec(name="one", image="any"))
    fleet.start("one")
    assert main(["shell", "--runtime-dir", str(folder), "one"]) == 4
    assert capfd.readouterr().out == "a shell reads: \n"
    assert [info.name for info in fleet.list()] == ["one"]


def test_a_new_one_ends_with_its_shell(fleet: Fleet, folder: Path) -> None:
    assert main(["shell", "--runtime-dir", str(folder)]) == 4
    assert fleet.list() == ()
