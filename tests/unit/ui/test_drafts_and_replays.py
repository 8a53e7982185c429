"""Drafts, replays and suggestions for a page."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.review import Index, parse
from egress.review.index_pool import TooSlowError
from egress.ui import drafts_and_replays
from egress.ui.drafts_and_replays import (
    TrafficSelection,
    draft_rules,
    replay_traffic,
    suggest_rule,
    timeout_check,
    until_timeout,
)
from egress.ui.rulebook import RuleBook, read
from tests.unit.ui.page_app import NOW, denied, line, rules, write

SECONDS = NOW // 1_000_000


def test_drafts_what_passed(tmp_path: Path) -> None:
    log = write(tmp_path, [line(1), denied(2)])
    made, missing = draft_rules(
        TrafficSelection(log, None, "7d", ""), read([rules(tmp_path)], SECONDS), SECONDS
    )
    assert missing == ()
    assert "api.github.com" in made.text
    assert "/gists" not in made.text
    assert draft_rules(TrafficSelection(log, None, "7d", "other"), RuleBook(), SECONDS)[0].hosts == 0
    with pytest.raises(UsageError):
        draft_rules(TrafficSelection(log, None, "soon", ""), RuleBook(), SECONDS)


def test_an_index_in_another_place_is_asked_what_to_pass_over(tmp_path: Path) -> None:
    """What it knows to be of another time is not read: here it could not be read."""
    log = write(tmp_path, [line(1, time="2026-01-01T00:00:00.000000Z")])
    place = tmp_path / "elsewhere.sqlite3"
    (log / "audit-000002.jsonl").write_bytes(line(2))
    with Index(log, place, reserve=0) as index:
        index.catch_up()
    first = log / "audit-000001.jsonl"
    stat = first.stat()
    # Its end is what an index compares.
    whole = first.read_bytes()
    first.write_bytes(b"x" * (len(whole) - 200) + whole[-200:])
    os.utime(first, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert draft_rules(TrafficSelection(log, place, "7d", ""), RuleBook(), SECONDS)[1] == ()
    assert draft_rules(TrafficSelection(log, None, "7d", ""), RuleBook(), SECONDS)[1] != ()


def test_replays_by_the_rules_at_hand(tmp_path: Path) -> None:
    log = write(tmp_path, [line(1), line(2, host="docs.example.com", injected=[])])
    policy = read([rules(tmp_path)], SECONDS).policy
    assert policy is not None
    found, missing = replay_traffic(TrafficSelection(log, None, "7d", ""), policy, SECONDS)
    assert missing == ()
    assert [change.host for change in found.denied] == ["docs.example.com"]
    assert found.same == 1


def test_says_what_it_did_not_take_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_and_replays, "MAX_KINDS", 2)
    log = write(tmp_path, [*(line(number, path=f"/{number}") for number in range(5)), b"{}\n"])
    at_hand = read([rules(tmp_path)], SECONDS)
    made, missing = draft_rules(TrafficSelection(log, None, "7d", ""), at_hand, SECONDS)
    assert missing == (
        "1 line of the log could not be read: run `egress log verify`",
        "3 more lines left out: over 2 different requests before",
    )
    assert "too many different requests before them: 3 requests" in made.text
    assert at_hand.policy is not None
    assert replay_traffic(TrafficSelection(log, None, "7d", ""), at_hand.policy, SECONDS)[1] == missing


def test_suggests_what_would_allow_it(tmp_path: Path) -> None:
    at_hand = read([rules(tmp_path)], SECONDS)
    entry = parse(denied(2)[:-1])
    answer = suggest_rule(entry, at_hand, SECONDS)
    assert answer is not None
    assert any("/gists" in text for step in answer.steps for text in step.yaml)
    assert suggest_rule(entry, RuleBook(), SECONDS) is None
    assert suggest_rule(parse(line(1, event="started")[:-1]), at_hand, SECONDS) is None


def test_gives_up_when_it_is_late() -> None:
    times = iter((0.0, 1.0, 1.0, 30.0))
    items = until_timeout(range(5000), timeout_check(times.__next__))
    with pytest.raises(TooSlowError):
        list(items)
    assert list(until_timeout(range(3), timeout_check(lambda: 0.0))) == [0, 1, 2]


def test_working_out_takes_of_the_same_time_as_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is set and the first line read in good time; what comes then is late."""
    log = write(tmp_path, [line(1)])
    policy = read([rules(tmp_path)], SECONDS).policy
    assert policy is not None
    wanted = TrafficSelection(log, None, "7d", "")
    for work in (partial(draft_rules, wanted, RuleBook()), partial(replay_traffic, wanted, policy)):
        times = iter((0.0, 0.0))
        monkeypatch.setattr("egress.ui.drafts_and_replays.time.monotonic", partial(next, times, 30.0))
        with pytest.raises(TooSlowError):
            work(SECONDS)
        assert next(times, None) is None
