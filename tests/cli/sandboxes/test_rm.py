"""`egress rm`: those that were named go, or all, and never by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from egress.runtime.spec import Spec

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def two(fleet: Fleet, box: str) -> tuple[str, str]:
    fleet.create(Spec(name="two", image="any"))
    return (box, "two")


@pytest.mark.usefixtures("two")
def test_the_one_that_was_named_goes(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert main(["rm", "--runtime-dir", str(folder), "two"]) == 0
    assert capsys.readouterr().out == "removed two\n"
    assert [info.name for info in fleet.list()] == ["one"]


@pytest.mark.usefixtures("two")
def test_all_go_where_all_are_meant(fleet: Fleet, folder: Path) -> None:
    assert main(["rm", "--runtime-dir", str(folder), "--all"]) == 0
    assert fleet.list() == ()


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("words", [[], ["--all", "one"]], ids=["nothing", "both"])
def test_it_has_to_be_clear_which(words: list[str], fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert main(["rm", "--runtime-dir", str(folder), *words]) == 2
    assert "no sandbox is named" in capsys.readouterr().err
    assert len(fleet.list()) == 2


@pytest.mark.usefixtures("two")
def test_where_one_is_not_there_none_goes(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert main(["rm", "--runtime-dir", str(folder), "one", "three"]) == 3
    assert "no sandbox is named three" in capsys.readouterr().err
    assert len(fleet.list()) == 2
