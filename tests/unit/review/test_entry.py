"""One line: what is taken from it, and what is no line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.audit.fields import MAX_FACTS
from egress.audit.schema import LINE_KINDS
from egress.review.entry import ODD, NotALineError, parse, texts_of
from tests.unit.audit.sample import files
from tests.unit.review.sample import write

TIME = "2026-03-01T09:30:00.000123Z"


def line(**fields: object) -> bytes:
    return json.dumps({"seq": 1, "time": TIME, "event": "exchange", **fields, "mac": ""}).encode()


def test_every_line_that_a_proxy_writes_is_one(tmp_path: Path) -> None:
    write(tmp_path)
    entries = [parse(text) for text in files(tmp_path)[0].read_bytes().splitlines()]
    assert [entry.seq for entry in entries] == list(range(1, 9))
    assert [entry.event for entry in entries[:2]] == ["started", "exchange"]
    assert [entry.verdict for entry in entries] == [
        "",
        "allow",
        "allow",
        "deny",
        "allow",
        "allow",
        "deny",
        "allow",
    ]
    assert entries[4].secrets == ("mail", "github")
    assert all(entry.event in LINE_KINDS for entry in entries)
    assert sum(entry.requests for entry in entries) == 7


@pytest.mark.parametrize(
    ("verdict", "code", "address", "read"),
    [
        ("cut", "canary.seen", "192.0.2.1", "cut"),
        ("allow", "rule.allowed", "192.0.2.1", "allow"),
        ("allow", "upstream.closed", "192.0.2.1", "allow"),
        ("allow", "upstream.unresolved", None, "allow"),
        ("allow", "client.left", None, "allow"),
        ("allow", "of.tomorrow", None, "allow"),
        ("allow", "canary.seen", "192.0.2.1", "cut"),
        ("allow", "canary.seen", None, "deny"),
        ("allow", "address.refused", None, "deny"),
        ("allow", "upstream.tls", "192.0.2.1", "cut"),
        ("allow", "lane.ended", "192.0.2.1", "cut"),
        ("allow", ["canary.seen"], None, "allow"),
        ("deny", "canary.seen", "192.0.2.1", "deny"),
        ("maybe", "canary.seen", None, ""),
    ],
)
def test_what_version_0_1_0_called_allowed_is_read_as_what_it_was(
    verdict: str, code: object, address: str | None, read: str
) -> None:
    """The line stays as it is."""
    raw = line(verdict=verdict, code=code, address=address)
    entry = parse(raw)
    assert entry.verdict == read
    assert (entry.fields["verdict"], entry.raw) == (verdict, raw)


def test_what_was_only_counted_was_denied_unless_the_client_had_left() -> None:
    assert parse(line(event="folded", code="host.unknown", count=7)).verdict == "deny"
    assert parse(line(event="folded", code="upstream.unreachable", count=7)).verdict == "deny"
    assert parse(line(event="folded", code="client.left", count=7)).verdict == "allow"


def test_an_allowed_request_can_have_failed() -> None:
    assert parse(line(verdict="allow", code="upstream.unreachable")).is_failed
    for verdict, code in (("allow", "rule.allowed"), ("allow", "client.left"), ("deny", "upstream.closed")):
        assert not parse(line(verdict=verdict, code=code)).is_failed


def test_a_field_of_another_type_is_as_if_it_were_not_there() -> None:
    entry = parse(
        line(host=["x"], status="200", bytes_up=-1, bytes_down=True, observed="true", injected=[7, {}])
    )
    assert (entry.text("host"), entry.number("status"), entry.number("bytes_up")) == ("", 0, 0)
    assert (entry.number("bytes_down"), entry.flag("observed"), entry.secrets) == (0, False, ())


def test_the_reason_is_told_where_no_rule_tells_it() -> None:
    for code in ("rule.allowed", "rule.denied"):
        assert parse(line(code=code, rule="a#b")).reason == ""
    assert parse(line(code="secret.unavailable", rule="a#b")).reason == "secret.unavailable"
    assert parse(line(code="rule.none", rule=None)).reason == "rule.none"


def test_a_later_version_is_read_and_told() -> None:
    entry = parse(line(event="canary.seen", more={"a": 1}))
    assert entry.event not in LINE_KINDS
    assert entry.requests == 0


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"seq":1,"time":"2026#', "half"),
        (b"x" * 300_000, "huge"),
        (b"", "foreign"),
        (b"hello", "foreign"),
        (b"[1]", "foreign"),
        (b'{"a":1}', "foreign"),
        (b"[" * 100_000, "foreign"),
        (b'{"seq":1,"ti', "corrupt"),
        (b'{"seq":true,"time":"2026-03-01T09:30:00.000123Z","event":"x","mac":""}', "corrupt"),
        (b'{"seq":1,"time":"later","event":"x","mac":""}', "corrupt"),
        (b'{"seq":1,"time":"2026-03-01T09:30:00.000123Z","event":"x"}', "corrupt"),
        (b"\xff\xfe", "foreign"),
        (b'{"seq":' + b"9" * 5000 + b"}", "corrupt"),
    ],
)
def test_what_is_no_line_says_of_what_kind_it_is(raw: bytes, kind: str) -> None:
    with pytest.raises(NotALineError) as error:
        parse(raw)
    assert error.value.kind == kind
    assert error.value.message == f"this is {ODD[error.value.kind]}"


def test_texts_are_found_however_deep_they_are() -> None:
    assert texts_of({"a": ["b", {"c": "d"}], "e": 1}) == ["a", "e", "b", "c", "d"]


@pytest.mark.parametrize(
    "facts",
    [
        7,
        [],
        {"Not a name": 1},
        {"a": None},
        {"a": 1.5},
        {"a": "x" * 300},
        {f"n{number}": 1 for number in range(MAX_FACTS + 1)},
    ],
)
def test_a_line_with_facts_beyond_their_bounds_is_damaged(facts: object) -> None:
    with pytest.raises(NotALineError) as error:
        parse(line(facts=facts))
    assert error.value.kind == "corrupt"


def test_facts_within_their_bounds_are_read() -> None:
    assert parse(line(facts={"a.b": "x", "n": -3, "is": True})).fields["facts"] == {
        "a.b": "x",
        "n": -3,
        "is": True,
    }


def test_a_lone_surrogate_is_read_as_it_was_written() -> None:
    assert parse(line(path="/\ud800")).text("path") == "/\ud800"
