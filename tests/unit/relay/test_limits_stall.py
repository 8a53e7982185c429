"""Since when nothing has moved, and who is at fault."""

from __future__ import annotations

import pytest

from egress.relay.limits import RelayLimits, StallTimer
from tests.unit.relay.wires import START, Lab, get, head, post

LIMITS = RelayLimits(request_body=10, response_head=20, silence=30)


def test_a_count_that_moves_starts_the_time_anew() -> None:
    stall = StallTimer(START)
    assert stall.quiet_seconds(0, START + 5) == 0
    assert stall.quiet_seconds(0, START + 9) == 4
    assert stall.quiet_seconds(1, START + 10) == 0
    stall.restart(START + 12)
    assert stall.quiet_seconds(1, START + 15) == 3


@pytest.mark.parametrize(
    ("asked", "answered", "held", "most", "code"),
    [
        (get(), b"", False, 20, "upstream.timeout"),
        (post(b"12345")[:-1], b"", False, 10, "request.timeout"),
        (post(b"12345")[:-1], b"", True, 20, "upstream.timeout"),
        (get(), head("content-length: 5"), False, 30, "upstream.timeout"),
        (post(b"12345")[:-1], head("content-length: 5"), False, 30, "upstream.timeout"),
    ],
)
def test_each_stage_has_its_time(asked: bytes, answered: bytes, held: bool, most: float, code: str) -> None:
    lab = Lab()
    lab.says(asked)
    lab.opens()
    if answered:
        lab.answers(answered)
    (stream,) = lab.relay._live
    stall = StallTimer(START)
    stall.abort_if_stalled(stream, START, LIMITS, held=held)
    stall.abort_if_stalled(stream, START + most, LIMITS, held=held)
    assert lab.codes == []
    stall.abort_if_stalled(stream, START + most + 1, LIMITS, held=held)
    assert lab.codes == [code]
