"""Cutting lines up: what comes of it is what parsing the whole line says, whatever stands in it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.review import NotALineError, parse
from egress.review.drafting import fast_exchange_parse
from egress.review.drafting.fast_exchange_parse import ExchangeParser, ParsedExchange
from egress.review.drafting.observation import Observation, id_of, observe
from egress.review.drafting.traffic import Traffic
from tests.unit.review.sample import write


@cache
def lines() -> list[bytes]:
    """Those of a log, as the proxy writes them."""
    with TemporaryDirectory() as folder:
        write(Path(folder))
        return Path(folder, "audit-000001.jsonl").read_bytes().splitlines()


def said(one: ParsedExchange) -> Observation:
    return replace(one.kind.seen, path=one.path)


def parsed(line: bytes) -> Observation | None:
    return observe(parse(line).fields)


def test_exchanges_are_cut_and_the_rest_is_left_to_be_parsed() -> None:
    cutter = ExchangeParser()
    found = {index: one for index, line in enumerate(lines()) if (one := cutter.cut(line))}
    # Not a tunnel, a name and an event.
    assert [one.id for one in found.values()] == ["r-1", "r-2", "r-3", "r-4", "r-6"]
    assert [said(one) for one in found.values()] == [parsed(lines()[index]) for index in found]


def test_lines_that_differ_in_nothing_but_their_path_are_of_one_kind() -> None:
    cutter = ExchangeParser()
    one, other = cutter.cut(lines()[1]), cutter.cut(lines()[2])
    assert one is not None
    assert other is not None
    assert one.kind is other.kind
    assert (one.path, other.path) == ("/repos/acme/app", "/user/keys")


def test_http2_and_a_connection_without_a_request_are_told() -> None:
    line = lines()[1].replace(b',"alpn":"http/1.1"', b',"alpn":"h2"').replace(b'"r-1"', b'""')
    found = ExchangeParser().cut(line)
    assert found is not None
    assert found.kind.seen.is_http2
    assert found.id == "c-17"


@given(st.data())
def test_a_changed_line_says_no_other_thing_than_when_it_is_parsed(data: st.DataObject) -> None:
    cutter = ExchangeParser()
    for line in lines():
        cutter.cut(line)
    line = data.draw(st.sampled_from(lines()))
    at = data.draw(st.integers(0, len(line) - 1))
    byte = data.draw(st.integers(0, 255) | st.sampled_from(b'"\\{}[],:0a'))
    changed = line[:at] + bytes([byte]) + line[at + data.draw(st.sampled_from([0, 1])) :]
    found = cutter.cut(changed)
    try:
        whole = parsed(changed)
    except NotALineError:
        return
    assert found is None or said(found) == whole


def test_a_line_that_says_a_thing_twice_is_left_to_be_parsed() -> None:
    line = lines()[1]
    cutter = ExchangeParser()
    assert cutter.cut(line) is not None
    for place in (
        b',"listener":',
        b',"connection":',
        b',"request":',
        b',"replaced":',
        b',"resolve_us":',
        b',"mac":',
    ):
        for again in (
            b',"profile":"x"',
            b',"host":"evil"',
            b',"path":"/evil"',
            b',"verdict":"deny"',
            b',"request":"z"',
        ):
            changed = line.replace(place, again + place)
            assert changed != line
            found = cutter.cut(changed)
            assert found is None or (said(found), found.id) == (parsed(changed), id_of(parse(changed).fields))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_exchange_parse, "KEPT", 3)
    cutter, made = ExchangeParser(), []
    for number in range(10):
        one = cutter.cut(lines()[1].replace(b"api.github.com", b"h%d.example" % number))
        assert one is not None
        assert one.kind.seen.host == f"h{number}.example"
        made.append(one)
    assert len(cutter._kinds) <= 3
    assert Traffic.of(made, most=4).kinds == 4


def test_counting_cut_lines_is_counting_parsed_ones() -> None:
    cutter = ExchangeParser()
    twice = lines() * 2
    whole = Traffic.of([parse(line).fields for line in twice])
    mixed = Traffic.of([cutter.cut(line) or parse(line).fields for line in twice])
    assert list(mixed) == list(whole)
    assert mixed.lines == whole.lines == 14
    assert Traffic.of([one for line in twice if (one := cutter.cut(line))], "coding").lines == 8
    assert Traffic.of([one for line in twice if (one := cutter.cut(line))], "other").lines == 0
