"""`egress shell`: in a sandbox that is there, or in a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.spec import Spec
from tests.cli.sandboxes.conftest import serving

Captured = pytest.CaptureFixture[str]


def shell(call: ProgramCall) -> int:
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


def test_what_is_said_of_one_that_is_to_be_made_is_no_word_on_one_that_is_there(
    fleet: Fleet, folder: Path, capfd: Captured
) -> None:
    fleet.create(Spec(name="one", image="any"))
    fleet.start("one")
    assert main(["shell", "--runtime-dir", str(folder), "--memory", "1g", "one"]) == 2
    assert "--memory applies only to a new sandbox" in capfd.readouterr().err


@pytest.mark.parametrize("words", [["one"], ["--name", "one"]])
def test_a_shell_shows_in_which_sandbox_it_is(folder: Path, capfd: Captured, words: list[str]) -> None:
    """Its user may have no name there, and the machine's is none."""

    def told(call: ProgramCall) -> int:
        call.write(call.env["PROMPT_COMMAND"].encode() + b"\n" + call.env["PS1"].encode() + b"\n")
        return 0

    with serving(FakeRuntime(programs={"/bin/sh": told}), folder) as fleet:
        if words == ["one"]:
            fleet.create(Spec(name="one", image="any"))
            fleet.start("one")
        assert main(["shell", "--runtime-dir", str(folder), *words]) == 0
    bash, plain = capfd.readouterr().out.splitlines()
    assert "one:" in bash
    assert plain == "one:$PWD\\$ "
