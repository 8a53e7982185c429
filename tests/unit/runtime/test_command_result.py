"""Whoever waits for a command gets what came of it, as often as he asks."""

from __future__ import annotations

import threading
import traceback

import pytest

from egress.runtime.command_result import ResultFuture
from egress.runtime.errors import SandboxDiedError, SandboxTimeoutError
from egress.runtime.spec import ExecResult

RESULT = ExecResult(
    exit_code=3, stdout_bytes=b"x", stderr_bytes=b"", duration=0.1, timed_out=False, truncated=False
)


def test_nothing_has_come_until_it_has() -> None:
    outcome = ResultFuture()
    assert not outcome.is_settled()
    with pytest.raises(SandboxTimeoutError):
        outcome.wait(0)
    outcome.settle(RESULT)
    assert outcome.is_settled()
    assert outcome.wait(0) is RESULT


def test_all_who_wait_are_told_and_told_again() -> None:
    outcome = ResultFuture()
    told: list[ExecResult] = []
    waiting = [threading.Thread(target=lambda: told.append(outcome.wait())) for _ in range(3)]
    for each in waiting:
        each.start()
    outcome.settle(RESULT)
    for each in waiting:
        each.join()
    assert [*told, outcome.wait()] == [RESULT] * 4


def test_a_failure_is_raised_each_time_and_does_not_grow() -> None:
    def origin() -> None:
        raise SandboxDiedError("it has ended")

    outcome = ResultFuture()
    try:
        origin()
    except SandboxDiedError as error:
        outcome.settle(error)
    depths = set()
    for _ in range(3):
        with pytest.raises(SandboxDiedError, match="it has ended") as caught:
            outcome.wait()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "origin"
        depths.add(len(frames))
    assert len(depths) == 1
