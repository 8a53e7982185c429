"""The schema names every kind of line, and says of every field what it means and how large it can be."""

from __future__ import annotations

from contextlib import suppress
from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import EVENTS
from egress.audit.fields import MAX_FACTS, LogLine
from egress.audit.schema import LINE_KINDS, LINE_SECTIONS, ExchangeLine, TrafficLine

FACTS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_.]{0,63}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), max_size=256) | st.integers(-(2**62), 2**62 - 1) | st.booleans(),
    min_size=1,
    max_size=MAX_FACTS,
)


def read(line: bytes) -> ExchangeLine:
    return msgspec.json.decode(line, type=ExchangeLine)


@pytest.mark.parametrize("kind", LINE_KINDS.values())
def test_every_field_says_what_it_means_and_has_a_default(kind: type[LogLine]) -> None:
    assert (kind.__doc__ or "").strip().endswith(".")
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in kind.__struct_fields__:
            about = [meta for meta in hint.__metadata__ if meta.description]
            assert about, f"{kind.__name__}.{name}"
    assert kind() == kind()


def test_every_kind_of_line_is_in_one_section() -> None:
    kinds = [kind for found in LINE_SECTIONS.values() for kind in found]
    shared = {TrafficLine}
    assert (
        len(kinds)
        == len(LINE_KINDS)
        == len({*LogLine.__subclasses__(), *TrafficLine.__subclasses__()} - shared)
    )
    assert set(EVENTS) < set(LINE_KINDS)


@given(FACTS)
def test_facts_are_read_as_they_were_written(facts: dict[str, str | int | bool]) -> None:
    line = ExchangeLine(host="api.github.com", facts=facts)
    assert read(msgspec.json.encode(line)) == line


@pytest.mark.parametrize(
    "facts",
    [
        *(b'{"Name":1}', b'{"":1}', b'{"a b":1}', b'{"a\\n":1}', b'{"%b":1}' % (b"a" * 65)),
        *(
            b'{"a":1.5}',
            b'{"a":null}',
            b'{"a":[]}',
            b'{"a":{}}',
            b'{"a":4611686018427387904}',
            b"[]",
            b"null",
        ),
        b'{"a":"%b"}' % (b"x" * 258),
        b"{%b}" % b",".join(b'"f%d":1' % n for n in range(MAX_FACTS + 1)),
    ],
)
def test_facts_beyond_their_bounds_are_refused(facts: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(b'{"event":"exchange","facts":%b}' % facts)


def test_a_line_of_a_version_without_a_field_reads_as_its_default() -> None:
    assert read(b'{"event":"exchange","later":{"x":[1]}}') == ExchangeLine()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line_or_an_error_of_the_decoder(data: bytes) -> None:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        assert isinstance(read(data), ExchangeLine)
