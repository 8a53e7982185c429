"""`egress attach`: a process of another program is followed, and left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.cli.sandboxes import attach_process
from egress.fleet import Fleet
from egress.fleet.process_table import TableProcess
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.spec import Command
from tests.cli.sandboxes.conftest import serving

Captured = pytest.CaptureFixture[str]


def prompt(call: ProgramCall) -> None:
    call.write(b"ready\n")
    call.run_on()


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    with serving(FakeRuntime(programs={"prompt": prompt}), folder) as found:
        yield found


def begun(fleet: Fleet, *argv: str, keep: int = 1000, stdin: bool = False) -> TableProcess:
    return fleet.tracked.start("one", Command(argv=argv, input=None if stdin else b""), keep)


def attached(folder: Path, *words: str) -> int:
    return main(["attach", "--runtime-dir", str(folder), *words])


@pytest.mark.usefixtures("box")
def test_it_is_followed_to_its_status(fleet: Fleet, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    process = begun(fleet, "cat", "missing")
    assert attached(folder, "one", process.id) == 1
    assert "No such file" in capfd.readouterr().err
    assert attached(folder, "one", begun(fleet, "echo", "hello").id) == 0
    assert capfd.readouterr().out == "hello\n"


@pytest.mark.usefixtures("box")
def test_input_is_passed_on(
    fleet: Fleet, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"hello")
    os.close(writing)
    monkeypatch.setattr(attach_process, "STDIN", reading)
    assert attached(folder, "--stdin", "one", begun(fleet, "cat", stdin=True).id) == 0
    assert capfd.readouterr().out == "hello"
    os.close(reading)


@pytest.mark.usefixtures("box")
def test_a_reader_that_goes_away_leaves_the_process(
    fleet: Fleet, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(attach_process, "STDOUT", writing)
    process = begun(fleet, "prompt")
    process.wait(30, log="ready")
    assert attached(folder, "one", process.id) == 0
    assert process.status().state == "running"
    assert "it goes on" in capfd.readouterr().err
    os.close(writing)


@pytest.mark.usefixtures("box")
def test_an_unknown_process_is_an_error(folder: Path, capsys: Captured) -> None:
    assert attached(folder, "one", "0" * 16) != 0
    assert "no process of this id" in capsys.readouterr().err
