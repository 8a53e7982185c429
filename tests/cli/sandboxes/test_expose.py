"""`egress expose`: the address of a port, for as long as it was asked for, and the list without tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet

Captured = pytest.CaptureFixture[str]


def said(folder: Path, capsys: Captured, *words: str) -> str:
    assert main(["expose", "--runtime-dir", str(folder), *words]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("box")
def test_the_address_is_printed_and_stays_the_same(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    first = said(folder, capsys, "one", "8000")
    (shown,) = fleet.previews()
    assert first == f"{shown.url}\n"
    assert said(folder, capsys, "one", "8000", "--expires", "2h") == first
    assert [each.left for each in fleet.previews()] != [None]
    data = json.loads(said(folder, capsys, "one", "8000", "--json"))
    assert (data["url"], data["token"], data["origin"]) == (shown.url, shown.token, shown.origin)
    assert 7000 < data["seconds_left"] <= 7200


@pytest.mark.usefixtures("box")
def test_the_list_names_no_token(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    assert said(folder, capsys) == "no previews\n"
    shown = fleet.expose("one", 8000, 7300.0)
    fleet.expose("one", 8001)
    lines = [line.split() for line in said(folder, capsys).splitlines()]
    assert lines[0] == ["sandbox", "port", "left", "address"]
    assert lines[1] == ["one", "8000", "2h", shown.origin]
    assert lines[2][:2] == ["one", "8001"]
    for words in ((), ("--json",), ("one",)):
        assert shown.token not in said(folder, capsys, *words)
    assert [each["port"] for each in json.loads(said(folder, capsys, "one", "--json"))] == [8000, 8001]
    assert main(["ps", "--runtime-dir", str(folder)]) == 0
    assert "one: preview of port 8000, 2h left\none: preview of port 8001\n" in capsys.readouterr().out


@pytest.mark.usefixtures("box")
def test_a_preview_is_ended(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    fleet.expose("one", 8000)
    fleet.expose("one", 8001)
    assert said(folder, capsys, "one", "8000", "--remove") == "one: port 8000 is not exposed any more\n"
    assert [each.port for each in fleet.previews()] == [8001]


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("two", "8000"), 3),
        (("two",), 3),
        (("two", "8000", "--remove"), 3),
        (("one", "0"), 2),
        (("one", "65536"), 2),
        (("one", "--remove"), 2),
        (("--expires", "1h"), 2),
        (("one", "8000", "--expires", "soon"), 2),
        (("one", "8000", "--expires", "1h", "--remove"), 2),
    ],
)
def test_a_call_that_cannot_be_shows_nothing(
    fleet: Fleet, folder: Path, words: tuple[str, ...], status: int
) -> None:
    assert main(["expose", "--runtime-dir", str(folder), *words]) == status
    assert fleet.previews() == ()
