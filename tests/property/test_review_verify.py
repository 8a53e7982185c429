"""The quick way of verifying says of every log what the slow way says, wherever its pieces end."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import Verification
from egress.errors import UnreadableError
from tests.property.test_audit import CHANGES, STEPS, folder, play, written
from tests.unit.audit.sample import NAME, abandon, check, files, moments, opened
from tests.unit.audit.tampering import Change


def outcome(log: Path) -> Verification | str:
    """What is found, or why nothing can be."""
    try:
        return check(log)
    except UnreadableError as error:
        return error.message


def slowly(log: Path) -> Verification | str:
    with patch("egress.audit.verify.is_plain", return_value=False):
        return outcome(log)


def in_pieces(log: Path, size: int) -> Verification | str:
    with patch("egress.audit.quick_verify.CHUNK", size):
        return outcome(log)


@given(STEPS, st.lists(CHANGES, max_size=2), st.data(), st.sampled_from([700, 1000, 1500, 1 << 20]))
def test_both_ways_find_the_same(
    steps: list[str], changes: list[Change], data: st.DataObject, size: int
) -> None:
    with folder() as log:
        written(log, [*steps, "flush", *steps], rotate_at=2500)
        for change in changes:
            file = data.draw(
                st.sampled_from([path for path in sorted(log.iterdir()) if path.name != "in-flight"])
            )
            if file.stat().st_size:
                file.write_bytes(change.apply(file.read_bytes()))
        assert in_pieces(log, size) == slowly(log)


@given(STEPS, st.integers(0, 400), st.booleans(), st.sampled_from([700, 1000, 1 << 20]))
def test_both_ways_find_the_same_after_a_kill(steps: list[str], at: int, is_started: bool, size: int) -> None:
    with folder() as log:
        doing = play(log, [*steps, "refusal"])
        found = moments(log, doing.sink.flush, every=31)
        abandon(doing.sink)
        found[at % len(found)].put(log)
        if is_started:
            opened(log, in_flight=64).close()
        assert in_pieces(log, size) == slowly(log)


@pytest.mark.parametrize("size", [700, 1 << 20])
def test_a_log_that_is_not_the_one_that_the_head_knows_is_found(size: int, tmp_path: Path) -> None:
    """Both were written with one key, from one beginning, as after a folder that was copied."""
    for name in ("one", "other"):
        sink = opened(tmp_path / name)
        for count in range(6):
            sink.refusal(NAME) if name == "one" or count < 3 else sink.event("reloaded", policy="x")
            sink.flush()
        sink.close()
    shutil.copy(files(tmp_path / "other")[0], files(tmp_path / "one")[0])
    found = in_pieces(tmp_path / "one", size)
    assert isinstance(found, Verification)
    assert [fault.message for fault in found.faults] == ["this is not the line that the head knows"]
    assert slowly(tmp_path / "one") == found
