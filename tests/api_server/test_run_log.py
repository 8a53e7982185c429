"""The readers of a log are few at a time, and a place is given back however its reader ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.api_server.run_log import FollowerSlots, RunLog
from egress.review.index_pool import BusyError


def test_a_place_is_given_back() -> None:
    slots = FollowerSlots(1)
    for _ in range(3):
        with pytest.raises(OSError, match="left"), slots.one():
            raise OSError("left")
    with slots.one(), pytest.raises(BusyError), slots.one():
        pass


def test_all_questions_share_their_threads(tmp_path: Path) -> None:
    log = RunLog()
    assert log.pool(tmp_path) is log.pool(tmp_path)
    log.pool(tmp_path).close()
