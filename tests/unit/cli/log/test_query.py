"""`egress log query`: filters, pages, forms, and nothing that commands a terminal."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import UsageError
from tests.unit.audit.sample import FACTS, RECORD, files
from tests.unit.cli.log.sample import make, run
from tests.unit.review.sample import Writing


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch)


def test_the_newest_come_first_and_say_what_was_decided() -> None:
    status, said, beside = run("query", "--verdict", "denied")
    assert (status, beside) == (0, "")
    first, second = said.splitlines()
    assert "agent-1" in first
    assert "deny" in first
    assert "evil.example" in first
    assert "403" in second
    assert "r-3" in second


def test_nothing_is_a_finding() -> None:
    status, said, beside = run("query", "--host", "nowhere.example")
    assert (status, said) == (1, "")
    assert beside == "no matching lines\n"


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--since", "5h"), 3),
        (("--until", "2026-03-01T10:00:00Z"), 1),
        (("--sandbox", "bob", "--secret", "mail", "--status", "5XX", "--method", "post"), 1),
        (("--rule", "read", "--limit", "1"), 1),
        (("--grep", "KEYS"), 1),
        (("--event", "tunnel", "--code", "host.allowed"), 1),
    ],
)
def test_options_must_all_hold(words: tuple[str, ...], count: int) -> None:
    assert len(run("query", *words)[1].splitlines()) == count


def test_a_page_says_how_to_go_on() -> None:
    seen = []
    words: tuple[str, ...] = ()
    for _ in range(3):
        _, said, beside = run("query", "-n", "3", "--json", *words)
        seen += [json.loads(line)["seq"] for line in said.splitlines()]
        if "--before" not in beside:
            break
        words = ("--before", beside.partition("--before ")[2].strip("`\n"))
    assert seen == [8, 7, 6, 5, 4, 3, 2, 1]


def test_json_is_the_line_as_it_stands(log: Path) -> None:
    _, said, _ = run("query", "--json")
    lines = [json.loads(line) for line in files(log)[0].read_bytes().splitlines()]
    assert [json.loads(line) for line in said.splitlines()] == lines[::-1]


def test_what_a_sandbox_sends_commands_neither_terminal_nor_spreadsheet(log: Path) -> None:
    writing = Writing(log)
    writing.sink.exchange(None, replace(RECORD, path="=1+\x1b[2J\u202e\x7f", method="@A"), FACTS)
    writing.close()
    for words in ((), ("--json",), ("--csv",)):
        _, said, _ = run("query", *words)
        assert all(line.isprintable() for line in said.split("\n"))
    rows = list(csv.DictReader(io.StringIO(run("query", "--csv")[1])))
    assert rows[0]["path"].startswith("'=1+\\x1b")
    assert rows[0]["method"] == "'@A"


def test_csv_has_a_column_for_everything() -> None:
    rows = list(csv.DictReader(io.StringIO(run("query", "--csv", "--sandbox", "bob")[1])))
    assert [(row["secrets"], row["status"], row["port"], row["verdict"]) for row in rows] == [
        ("mail github", "502", "8443", "allow")
    ]


def test_what_is_no_line_is_told_beside(log: Path) -> None:
    with files(log)[0].open("ab") as file:
        file.write(
            b"\x1b[2Jjunk\n" + b'{"seq":9,"time":"2026-03-01T09:30:00.000123Z","event":"new","mac":""}\n'
        )
    _, said, beside = run("query")
    assert len(said.splitlines()) == 9
    assert "no lines of the log in 1 place: 1 foreign" in beside
    assert "a later version wrote 1 kind of lines" in beside


@pytest.mark.parametrize(
    "words",
    [
        ("--verdict", "x"),
        ("--status", "x"),
        ("--since", "x"),
        ("--before", "x"),
        ("--since", "1h", "--until", "2h"),
    ],
)
def test_a_wrong_option_says_how_it_is_written(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        run("query", *words)
    assert error.value.hint


def test_two_forms_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="two forms of one thing"):
        run("query", "--json", "--csv")
