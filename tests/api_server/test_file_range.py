"""A range is read as the RFC writes it, and everything else is refused or ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api_server.file_range import UnfitRangeError, choose_part


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-5", (2, 4)),
        ("BYTES=2-5", (2, 4)),
        ("bytes=8-", (8, 2)),
        ("bytes=8-99", (8, 2)),
        ("bytes=-3", (7, 3)),
        ("bytes=-99", (0, 10)),
        ("lines=1-2", None),
        ("nothing", None),
    ],
)
def test_a_range_of_ten_bytes(header: str, part: tuple[int, int] | None) -> None:
    assert choose_part([header], 10) == part


@pytest.mark.parametrize(
    "header",
    [
        "bytes=10-",
        "bytes=5-4",
        "bytes=-0",
        "bytes=-",
        "bytes=",
        "bytes",
        "bytes=0-1,3-4",
        "bytes= 0-1",
        "bytes=0-1 ",
        "bytes=+0-1",
        "bytes=0x0-1",
        "bytes=\uff10-1",
        "bytes=1-2\n",
        "bytes=" + "9" * 20 + "-",
        "bytes=--1",
    ],
)
def test_what_is_not_one_range_of_the_file_is_refused(header: str) -> None:
    with pytest.raises(UnfitRangeError):
        choose_part([header], 10)


def test_an_empty_file_has_no_range() -> None:
    for header in ("bytes=0-", "bytes=0-0", "bytes=-1"):
        with pytest.raises(UnfitRangeError):
            choose_part([header], 0)


def test_two_headers_are_refused() -> None:
    with pytest.raises(UnfitRangeError):
        choose_part(["bytes=0-1", "bytes=0-1"], 10)


@given(
    st.one_of(st.from_regex(r"bytes=\d{0,21}-\d{0,21}(,\d*-\d*)?\s?"), st.text()),
    st.integers(0, 2**63 - 1),
)
def test_any_header_is_a_part_of_the_file_or_refused(header: str, size: int) -> None:
    try:
        part = choose_part([header], size)
    except UnfitRangeError:
        return
    if part is not None:
        first, count = part
        assert 0 <= first < first + count <= size
