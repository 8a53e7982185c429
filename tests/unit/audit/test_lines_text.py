"""Text from anywhere becomes a line that neither a terminal nor a line reader can be fooled with."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.fields import CUT_MARK, MAX_ID, MAX_NAME, MAX_REASON, Injected, LogLine
from egress.audit.lines import body, cut, escaped
from egress.audit.schema import LINE_KINDS, ExchangeLine, LostLine, Stopped

HOSTILE = ["\n", "\r\n", "\x1b[2J", '"', "\\", "\x00", "\x7f", "\x9b", "\u2028", "\u202e", "\ud800", "é"]


def fields(line: LogLine) -> dict[str, Any]:
    text = body(line)
    assert text.isascii()
    assert text.isprintable()
    found = json.loads("{" + text + "}")
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_plain_ascii_is_written(text: str) -> None:
    assert fields(Stopped(reason=text))["reason"] == text
    assert fields(LostLine(host=text, secrets=(text,)))["secrets"] == [text]
    assert escaped(Stopped(reason=text)) == body(Stopped(reason=text))


@given(st.text(max_size=MAX_REASON))
def test_what_is_short_enough_is_kept_whole(text: str) -> None:
    assert fields(Stopped(reason=text))["reason"] == text


def test_what_is_too_long_ends_with_a_mark() -> None:
    assert cut("abcdef", 3) == "abc" + CUT_MARK
    assert fields(Stopped(reason="x" * 5000))["reason"] == "x" * MAX_REASON + CUT_MARK
    told = fields(ExchangeLine(request="\xff" * 500, profile="é" * 500, injected=(Injected("s" * 300, ""),)))
    assert told["request"] == "\xff" * MAX_ID + CUT_MARK
    assert len(told["profile"]) == len(told["injected"][0]["secret"]) == MAX_NAME + 1


def test_lists_and_names_of_maps_are_cut_too() -> None:
    assert len(fields(LostLine(secrets=tuple(map(str, range(50)))))["secrets"]) == 16
    assert fields(ExchangeLine(scrubbed={"n" * 300: 2}))["scrubbed"] == {"n" * MAX_NAME + CUT_MARK: 2}


@pytest.mark.parametrize("kind", LINE_KINDS.values())
def test_an_empty_line_has_every_field_but_those_that_are_left_out_unless_set(kind: type[LogLine]) -> None:
    defaults = {each.name: each.default for each in msgspec.structs.fields(kind)}
    left_out = {name for name, value in defaults.items() if value is msgspec.UNSET}
    of_pods = {"namespace", "pod", "pod_uid", "claim", "claim_uid", "replica", "reason"}
    assert left_out <= {"chains", "facts", "peer", "query", "kept", "ticket"} | of_pods
    expected = [name for name in kind.__struct_fields__ if name not in left_out]
    assert list(fields(kind())) == ["event", *expected]


@pytest.mark.parametrize("kind", LINE_KINDS.values())
def test_what_is_written_is_what_the_schema_reads(kind: type[LogLine]) -> None:
    line = kind()
    assert msgspec.json.decode("{" + body(line) + "}", type=kind) == line


def test_a_value_of_another_type_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="stopped"):
        body(Stopped(reason=wrong))
