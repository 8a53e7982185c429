"""`egress ps --processes`: the processes that have an id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.runtime.spec import Command

Captured = pytest.CaptureFixture[str]


def listed(folder: Path, *words: str) -> int:
    return main(["ps", "--processes", *words, "--runtime-dir", str(folder)])


@pytest.mark.usefixtures("box")
def test_processes_are_listed(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert listed(folder) == 0
    assert capsys.readouterr().out == "no processes\n"
    commands = (("sleep", "infinity"), ("false", "\x1b[2J" + "x" * 100))
    process, failed = (fleet.tracked.start("one", Command(argv=each)) for each in commands)
    failed.wait(30)
    assert listed(folder) == 0
    out = capsys.readouterr().out
    head, first, second = (line.split() for line in out.splitlines())
    assert head == ["sandbox", "process", "state", "started", "command"]
    assert (first[:3], first[-2:]) == (["one", process.id, "running"], ["sleep", "infinity"])
    assert second[1:5] == [failed.id, "ended", "with", "1"]
    assert "\x1b[2J" not in out
    assert listed(folder, "--json") == 0
    assert [each["exit_code"] for each in json.loads(capsys.readouterr().out)] == [None, 1]
