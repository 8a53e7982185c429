"""`egress exec`: a command in a sandbox that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet

Captured = pytest.CaptureFixture[str]


def test_its_output_is_ours_and_its_status(box: str, folder: Path, capfd: Captured) -> None:
    assert main(["exec", "--runtime-dir", str(folder), box, "--", "echo", "-n", "hello"]) == 0
    assert capfd.readouterr().out == "-n hello\n"
    assert main(["exec", "--runtime-dir", str(folder), box, "false"]) == 1
    assert main(["exec", "--runtime-dir", str(folder), box, "nonesuch"]) == 127


def test_a_command_whose_time_is_over_has_the_status_of_that(box: str, folder: Path) -> None:
    assert main(["exec", "--runtime-dir", str(folder), "--timeout", "5s", box, "sleep", "60"]) == 124


def test_it_gets_what_was_asked_for_and_nothing_else_of_ours(
    box: str, folder: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "copied")
    monkeypatch.setenv("OTHER", "stays")
    words = ["exec", "--runtime-dir", str(folder), "--env", "MINE", "--env", "MORE=said", box, "env"]
    assert main(words) == 0
    out = capfd.readouterr().out.splitlines()
    assert {"MINE=copied", "MORE=said"} <= set(out)
    assert not any(line.startswith("OTHER=") for line in out)


def test_another_folder_may_be_named(box: str, folder: Path, capfd: Captured) -> None:
    assert main(["exec", "--runtime-dir", str(folder), "--cwd", "/workspace", box, "pwd"]) == 0
    assert capfd.readouterr().out == "/workspace\n"


@pytest.mark.usefixtures("fleet")
def test_a_sandbox_that_is_not_there_is_named(folder: Path, capfd: Captured) -> None:
    assert main(["exec", "--runtime-dir", str(folder), "nobody", "true"]) == 3
    assert "no sandbox is named nobody" in capfd.readouterr().err


def test_a_time_that_is_none_is_told_before_anybody_is_asked(folder: Path, capfd: Captured) -> None:
    assert main(["exec", "--runtime-dir", str(folder), "--timeout", "soon", "nobody", "true"]) == 2
    assert "--timeout" in capfd.readouterr().err


def test_a_detached_command_goes_on_and_is_found_by_its_id(
    fleet: Fleet, box: str, folder: Path, capfd: Captured
) -> None:
    words = ["exec", "--runtime-dir", str(folder), "--detach", box, "--", "echo", "later"]
    assert main(words) == 0
    [found] = fleet.tracked.all(box)
    assert capfd.readouterr().out == f"{found.id}\n"
    assert found.argv == ("echo", "later")
    assert main(["attach", "--runtime-dir", str(folder), box, found.id]) == 0
    assert capfd.readouterr().out == "later\n"
