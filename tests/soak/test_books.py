"""The books of a soak find what is lost, told twice, or made up."""

from __future__ import annotations

import json
from pathlib import Path

from tests.soak.request_ledger import SETTLE_SECONDS, RequestLedger, Tail


def line(number: int, event: str = "exchange") -> dict[str, object]:
    return {"event": event, "path": f"/small/{number}", "code": "rule.allowed"}


def books_with(count: int) -> RequestLedger:
    books = RequestLedger()
    for _ in range(count):
        number = books.begin()
        books.saw(f"/small/{number}")
        books.end(number, 100.0)
    return books


def test_what_is_told_once_is_in_order() -> None:
    books = books_with(3)
    for number in range(3):
        books.read(line(number))
    assert books.lost(1000.0) == books.doubled == books.unseen == 0
    assert not books.strange
    assert books.requests == 3


def test_what_is_not_told_is_lost_behind_some_grace() -> None:
    books = books_with(3)
    books.read(line(1))
    assert books.lost(100.0 + SETTLE_SECONDS / 2) == 0
    assert books.lost(100.0 + SETTLE_SECONDS * 2) == 2
    assert books.unseen == 2


def test_what_is_told_or_sent_twice_is_counted() -> None:
    books = books_with(2)
    books.read(line(0))
    books.read(line(0))
    books.saw("/small/1")
    assert books.doubled == 2


def test_what_nobody_asked_for_is_wondered_at() -> None:
    books = books_with(1)
    books.read(line(7))
    books.read({"event": "lost"})
    assert len(books.strange) == 2


def test_a_log_is_read_over_the_ends_of_files_and_lines(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    first, second = tmp_path / "audit-000001.jsonl", tmp_path / "audit-000002.jsonl"
    whole = [json.dumps({"n": number}) + "\n" for number in range(4)]
    first.write_text(whole[0] + whole[1][:3])
    assert tail.take() == [{"n": 0}]
    first.write_text(whole[0] + whole[1])
    second.write_text(whole[2])
    assert tail.take() == [{"n": 1}, {"n": 2}]
    first.unlink()
    second.write_text(whole[2] + whole[3])
    assert tail.take() == [{"n": 3}]
    assert tail.take() == []
