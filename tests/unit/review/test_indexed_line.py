"""Reading by the schema gives what parsing gives, or leaves the line to it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import lines
from egress.audit.chain import TAIL, Chain
from egress.review.entry import NotALineError, parse
from egress.review.indexed_line import exchange, id_of, of_entry, read
from egress.review.line_shape import named
from egress.types import Identity
from tests.unit.audit.sample import FACTS, RECORD, files
from tests.unit.review.sample import write

STAMP = "2026-03-01T09:30:59.999999Z"
TEXT = st.text(max_size=20) | st.sampled_from(['","request":"', '"', "\\", '\\","path":"', ',"bytes_up":7'])


def sealed(body: str) -> bytes:
    return Chain(bytes(32)).seal(STAMP, body)[:-1]


def same(line: bytes) -> bool:
    """Whether both ways agree; returns whether the quick one did it by itself."""
    assert read(line) == of_entry(parse(line))
    return exchange(line) is not None


def test_both_ways_agree_on_every_kind_of_line(tmp_path: Path) -> None:
    write(tmp_path)
    quick = [same(line) for line in files(tmp_path)[0].read_bytes().splitlines()]
    assert quick.count(True) == 5, "the exchanges"


@given(TEXT, TEXT, TEXT, TEXT, st.integers(0, 2**60))
def test_both_ways_agree_whatever_the_sandbox_sends(
    path: str, method: str, host: str, box: str, size: int
) -> None:
    record = replace(RECORD, path=path, method=method, bytes_up=size, identity=Identity(box, host), code=host)
    facts = replace(FACTS, request=path, way=replace(FACTS.way, sni=host, connection=box))
    same(sealed(lines.exchange(record, facts)))
    same(sealed(lines.exchange(replace(record, facts={"a": host[:200], "b": 3}), facts)))


USUAL = sealed(lines.exchange(RECORD, FACTS))
NAMES = list(json.loads(USUAL))
AGAIN = [
    f'"{name}":{value}'.encode()
    for name in (*NAMES, "")
    for value in ('"zz"', "7", "null", '[{"secret":"x"}]', f'"{STAMP}"')
]
"""Fields that say something else than those of a line, or nothing that a field of that name can say."""


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_agree_where_a_field_comes_twice(name: str) -> None:
    """Nobody signed such a line, so it may say anything anywhere."""
    at = USUAL.index(f'"{name}":'.encode())
    for again in AGAIN:
        with suppress(NotALineError):
            same(USUAL[:at] + again + b"," + USUAL[at:])
        with suppress(NotALineError):
            same(USUAL[:-1] + b"," + again + b"}")


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_agree_where_another_field_stands_in_the_place_of_one(name: str) -> None:
    fields = json.loads(USUAL)
    before, behind = (
        json.dumps(dict(part), separators=(",", ":"))[1:-1].encode()
        for part in (
            list(fields.items())[: NAMES.index(name)],
            list(fields.items())[NAMES.index(name) + 1 :],
        )
    )
    for again in AGAIN:
        with suppress(NotALineError):
            same(b"{" + b",".join(part for part in (before, again, behind) if part) + b"}")


def test_what_ends_in_another_way_than_the_writer_s_lines_is_read_by_the_right_way() -> None:
    assert same(USUAL)
    for last in (b'"mac":7', b'"mac":"","host":"%b"}' % (b"e" * 54), b'"mac":"%b"]}' % (b"0" * 63)):
        with suppress(NotALineError):
            same(USUAL[: -TAIL + 1] + last)
    with pytest.raises(NotALineError):
        read(USUAL[:-TAIL] + b"}")


@given(st.integers(0, 2000), st.binary(max_size=3), st.integers(0, 3))
def test_a_damaged_line_is_read_by_the_right_way_or_refused(at: int, put: bytes, cut: int) -> None:
    line = sealed(lines.exchange(RECORD, FACTS))
    damaged = line[:at] + put + line[at + cut :]
    try:
        found = read(damaged)
    except NotALineError:
        return
    assert found == of_entry(parse(damaged))
    assert isinstance(named(found.shape)["host"], str)


def test_an_id_is_looked_up_by_a_number() -> None:
    assert id_of("") == 0
    assert 0 < id_of("c-17-3") < 1 << 32


@given(st.binary(max_size=400))
def test_any_bytes_are_a_line_or_an_error_of_the_reader(data: bytes) -> None:
    with suppress(NotALineError):
        read(b'{"seq":1,"time":"' + data)
    with suppress(NotALineError):
        read(data)


def test_a_line_that_is_nested_without_an_end_is_refused() -> None:
    deep = b'"x":' + b"[" * 5000 + b"]" * 5000 + b","
    with pytest.raises(NotALineError):
        read(USUAL.replace(b'"mac"', deep + b'"mac"'))
