"""`egress ps --processes`: the processes, terminals and sessions that have an id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.fleet.session_interface import ShellSettings
from egress.runtime.spec import Command, Terminal
from egress.sandbox.options import command_words
from egress.sandbox.terminal import SHELL_COMMAND

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
    assert head == ["sandbox", "id", "kind", "state", "started", "command"]
    assert (first[:3], first[-2:]) == (["one", process.id, "process"], ["sleep", "infinity"])
    assert second[1:6] == [failed.id, "process", "ended", "with", "1"]
    assert "\x1b[2J" not in out
    assert listed(folder, "--json") == 0
    assert [each["exit_code"] for each in json.loads(capsys.readouterr().out)] == [None, 1]


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (command_words("make test | tail"), ["make", "test", "|", "tail"]),
        (SHELL_COMMAND, ["a", "shell"]),
    ],
)
def test_a_command_is_shown_as_it_was_written(
    fleet: Fleet, folder: Path, capsys: Captured, words: tuple[str, ...], shown: list[str]
) -> None:
    fleet.tracked.start("one", Command(argv=words)).wait(30)
    assert listed(folder) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-len(shown) :] == shown
    assert listed(folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["argv"] == list(words)


@pytest.mark.usefixtures("box")
def test_terminals_and_sessions_are_listed_beside_them(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    terminal = fleet.tracked.start("one", Command(argv=("sleep", "infinity"), terminal=Terminal()))
    fleet.sessions.open("one", "build", ShellSettings(shell="/bin/dash"))
    assert listed(folder) == 0
    _, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert first[1:4] == [terminal.id, "terminal", "running"]
    assert (second[1:4], second[-1]) == (["build", "session", "idle"], "/bin/dash")
    assert listed(folder, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each.get("columns"), each.get("waiting")) for each in data] == [
        ("terminal", 80, None),
        ("session", None, 0),
    ]
