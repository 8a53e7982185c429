"""Lines on a screen: short, and harmless."""

from __future__ import annotations

import pytest

from egress.cli.log.line_format import as_csv, as_json, cells
from egress.review import CSV_COLUMNS, LogEntry, parse


def entry(body: str) -> LogEntry:
    return parse(f'{{"seq":7,"time":"2026-03-01T09:30:00.000123Z",{body},"mac":""}}'.encode())


def shown(line: LogEntry) -> list[str]:
    return [cell if isinstance(cell, str) else cell[0] for cell in cells(line)]


def test_a_line_of_any_kind_says_what_it_is_about() -> None:
    folded = entry('"event":"folded","sandbox":"a","code":"host.unknown","count":980,"began":"x"')
    assert shown(folded)[1:3] == ["a", "deny"]
    assert shown(folded)[5] == "host.unknown 980 times"
    killed = entry('"event":"killed","kind":"host","name":"api.github.com","connections":2')
    assert shown(killed)[2] == "killed"
    assert shown(killed)[4] == "kind host, name api.github.com, connections 2"
    tunnel = entry('"event":"tunnel","host":"a.example","port":8443,"verdict":"allow","code":"host.allowed"')
    assert shown(tunnel)[4] == "a.example:8443"


def test_a_denial_shows_its_reason_and_a_rule_speaks_for_itself() -> None:
    by_rule = '"event":"exchange","verdict":"{}","code":"{}","rule":"a.example#no-keys"'
    assert shown(entry(by_rule.format("deny", "rule.denied")))[5] == "no-keys"
    assert shown(entry(by_rule.format("allow", "rule.allowed")))[5] == "no-keys"
    # The rule fitted, and something else denied.
    assert shown(entry(by_rule.format("deny", "secret.unavailable")))[5] == "no-keys secret.unavailable"
    assert shown(entry('"event":"exchange","verdict":"deny","code":"rule.none"'))[5] == "rule.none"


def test_what_is_long_is_cut() -> None:
    assert len(shown(entry(f'"event":"exchange","verdict":"deny","path":"/{"x" * 4000}"'))[4]) == 120


def test_programs_get_lines_that_terminals_may_see(capsys: pytest.CaptureFixture[str]) -> None:
    line = entry('"event":"exchange","path":"\\u001b\x7f\u009b","method":"+1","bytes_up":5')
    as_json(line)
    as_csv([line])
    said = capsys.readouterr().out
    assert all(text.isprintable() for text in said.split("\n"))
    assert said.splitlines()[1] == ",".join(CSV_COLUMNS)
    assert ",'+1," in said
    assert ",5,,,," in said


def test_refused_pushes_differ_by_their_refs() -> None:
    told = (
        '"event":"exchange","verdict":"deny","code":"git.ref","facts":{"body_item":"update refs/heads/main"}'
    )
    assert shown(entry(told))[5] == "git.ref update refs/heads/main"
    assert shown(entry(told.replace('"update refs/heads/main"', "7")))[5] == "git.ref"
