"""The trace of a request: exactly as the standard writes it, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.exchange.messages import TraceParent, read_trace_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SOUND = f"00-{TRACE}-{SPAN}-01"
IDS = TraceParent(int(TRACE, 16), int(SPAN, 16))


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_a_trace_is_read_whatever_its_flags(flags: str) -> None:
    """A sandbox that does not sample is recorded all the same: what is exported is the operator's choice."""
    assert read_trace_parent((("host", "x"), ("traceparent", f"00-{TRACE}-{SPAN}-{flags}"))) == IDS


@pytest.mark.parametrize(
    "written",
    [
        "",
        SOUND.upper(),
        f" {SOUND}",
        f"{SOUND}\n",
        f"{SOUND}-00",
        SOUND[:-1],
        f"01-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}{SPAN}-01",
        f"00-{TRACE[:-1]}\N{FULLWIDTH DIGIT ONE}-{SPAN}-01",
        f"{SOUND},{SOUND}",
        "0" * 100_000,
    ],
)
def test_anything_else_is_no_trace(written: str) -> None:
    assert read_trace_parent((("traceparent", written),)) is None


def test_two_traces_are_none_and_so_is_no_field() -> None:
    assert read_trace_parent((("traceparent", SOUND), ("traceparent", SOUND))) is None
    assert read_trace_parent((("tracestate", "a=b"),)) is None


@given(st.text(max_size=80))
def test_no_text_is_read_as_another_one(text: str) -> None:
    found = read_trace_parent((("traceparent", text),))
    if found is not None:
        assert text == f"00-{found.trace_id:032x}-{found.span_id:016x}-{text[-2:]}"


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_every_trace_of_the_standard_is_read(trace: int, span: int, flags: int) -> None:
    written = f"00-{trace:032x}-{span:016x}-{flags:02x}"
    assert read_trace_parent((("traceparent", written),)) == TraceParent(trace, span)
