"""What waits behind a piece that is being decoded, and goes on in its order."""

from __future__ import annotations

import gzip
import os

from egress.exchange import CutExchange, Exchange, Response
from egress.relay.response_path import Backlog
from egress.shares.turns import ENDLESS_TURN
from tests.unit.exchange.sample import running
from tests.unit.relay.wires import CountedTurn

LONG = (os.urandom(1000) + bytes(50_000)) * 20
GZIP = (("content-encoding", "gzip"),)


def decoding() -> Exchange:
    made = running()
    made.respond(Response(200, "OK", GZIP))
    return made


def rest(backlog: Backlog) -> list[object]:
    """Everything that still comes, a step at a time: bytes joined, and trailers."""
    found: list[object] = []
    while not backlog.is_empty:
        step = backlog.step(CountedTurn(1))
        if isinstance(step, list) and found and isinstance(found[-1], bytes):
            found[-1] += b"".join(step)
        else:
            found.append(b"".join(step) if isinstance(step, list) else step)
    return found


def test_what_is_decoded_in_time_does_not_wait() -> None:
    backlog = Backlog(decoding())
    pieces = backlog.data(gzip.compress(LONG), ENDLESS_TURN)
    assert isinstance(pieces, list)
    assert b"".join(pieces) == LONG
    assert backlog.is_empty
    assert not backlog.keep_end(())


def test_pieces_and_the_end_wait_in_their_order() -> None:
    backlog = Backlog(decoding())
    packed = gzip.compress(LONG + b"tail")
    first = backlog.data(packed[:-30], CountedTurn(1))
    assert isinstance(first, list)
    assert not backlog.is_empty
    assert backlog.data(packed[-30:], ENDLESS_TURN) == []
    assert backlog.keep_end((("x-trailer", "v"),))
    rest_of_it = rest(backlog)
    assert b"".join(first) + rest_of_it[0] == LONG + b"tail"  # type: ignore[operator]  # it is bytes
    assert rest_of_it[1:] == [(("x-trailer", "v"),)]


def test_a_fault_further_on_is_one_in_its_turn() -> None:
    backlog = Backlog(decoding())
    backlog.data(gzip.compress(LONG)[:-8] + b"broken!!", CountedTurn(1))
    assert rest(backlog)[-1] == CutExchange("upstream.malformed")


def test_what_is_dropped_waits_no_more() -> None:
    backlog = Backlog(decoding())
    backlog.data(gzip.compress(LONG), CountedTurn(1))
    backlog.keep_end(())
    backlog.clear()
    assert [each for each in rest(backlog) if isinstance(each, tuple)] == []
