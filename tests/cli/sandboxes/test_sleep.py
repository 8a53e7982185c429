"""`egress sleep` and `egress wake`: those that were named sleep, and are shown to."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.runtime.spec import Spec

Captured = pytest.CaptureFixture[str]


def said(folder: Path, capsys: Captured, *words: str) -> list[str]:
    assert main([words[0], "--runtime-dir", str(folder), *words[1:]]) == 0
    return capsys.readouterr().out.splitlines()


def test_each_that_was_named_sleeps_and_wakes(fleet: Fleet, box: str, folder: Path, capsys: Captured) -> None:
    fleet.create(Spec(name="two", image="any"))
    fleet.start("two")
    assert said(folder, capsys, "sleep", box, "two") == ["one is asleep", "two is asleep"]
    assert [line.split()[1] for line in said(folder, capsys, "ps")] == ["state", "asleep", "asleep"]
    assert said(folder, capsys, "wake", box) == ["one is awake"]
    assert [each.state for each in fleet.list()] == ["running", "asleep"]


@pytest.mark.usefixtures("box")
def test_where_one_is_not_there_none_sleeps(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert main(["sleep", "--runtime-dir", str(folder), "one", "three"]) == 3
    assert "no sandbox is named three" in capsys.readouterr().err
    assert fleet.info("one").state == "running"


@pytest.mark.usefixtures("box")
def test_a_command_wakes_it(fleet: Fleet, folder: Path) -> None:
    fleet.sleep("one")
    assert main(["exec", "--runtime-dir", str(folder), "one", "--", "true"]) == 0
    assert fleet.info("one").state == "running"
