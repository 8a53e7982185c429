"""Files are read and written, and relative paths stay in the workspace."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime

import pytest

from egress.sandbox.files import FileStat, _known
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


@pytest.mark.parametrize("promise", CASES["files"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)


def test_a_time_that_no_calendar_has_is_the_nearest_one() -> None:
    """Whoever owns a file says of when it is, and some file systems keep any number."""
    there = _known(b"81a4 3 1700000000 \n")
    assert there == FileStat(
        kind="file", size=3, mode=0o644, modified=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    )
    assert _known(b"81a4 3 99999999999999 l").modified.year == MAXYEAR
    assert _known(b"41ed 3 -99999999999999 ").modified.year == MINYEAR


@pytest.mark.parametrize("said", [b"", b"81a4 3", b"file 3 4", b"81a4 many 4", b"81a4 3 now"])
def test_what_is_no_answer_is_told_and_not_taken_for_one(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"values to unpack|invalid literal"):
        _known(said)
