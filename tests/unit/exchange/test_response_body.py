"""The body of a response, piece by piece: what one turn decodes, and what is left for the next."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Mapping

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest

from egress.exchange import CutExchange
from egress.exchange.content_coding import ContentCoding
from egress.exchange.response_body import ResponseBody
from egress.inspect.inspector import AnswerError, FactValue
from egress.scrub import Needles
from egress.shares.pool import OPEN_ACCOUNT, Capacity, Resource, SharePool
from egress.shares.turns import ENDLESS_TURN
from egress.types import NO_EFFECTS, Headers
from tests.unit.relay.wires import CountedTurn

DATA = (os.urandom(1000) + bytes(50_000)) * 20
GZIP = (("content-encoding", "gzip"),)
NEEDLES = Needles({b"sesame-open": ("api",)})
MIB = 1 << 20


def body(most: int | None = None) -> ResponseBody:
    made = ResponseBody(NO_EFFECTS, Counter(), GZIP, most)
    made.decode(ContentCoding.GZIP, OPEN_ACCOUNT)
    return made


def test_a_turn_decodes_a_piece_at_least_and_leaves_the_rest() -> None:
    made = body()
    came = made.feed(gzip.compress(DATA), CountedTurn(2))
    assert isinstance(came, list)
    turns = 0
    while made.is_behind:
        more = made.more(CountedTurn(2))
        assert isinstance(more, list)
        assert 0 < sum(map(len, more)) <= 3 * 64 * 1024
        came += more
        turns += 1
    assert b"".join(came) == DATA
    assert turns >= 4
    assert made.more(ENDLESS_TURN) == []
    assert made.check_end() == ""


def test_a_secret_that_lies_across_two_turns_is_masked() -> None:
    text = b"x" * (64 * 1024 - 4) + b"sesame-open" + b"y" * 100_000
    made = body()
    made.search(NEEDLES)
    came = made.feed(gzip.compress(text), CountedTurn(0))
    assert isinstance(came, list)
    while made.is_behind:
        more = made.more(CountedTurn(0))
        assert isinstance(more, list)
        came += more
    came += made.end_message()
    assert b"".join(came) == text.replace(b"sesame-open", b"*" * 11)


def test_a_limit_holds_over_all_turns() -> None:
    made = body(most=200_000)
    assert isinstance(made.feed(gzip.compress(DATA), CountedTurn(0)), list)
    found = [made.more(CountedTurn(0)) for _ in range(4) if made.is_behind]
    assert found[-1] == CutExchange("limit.response_body")
    assert not made.is_behind


def test_an_early_end_is_a_fault() -> None:
    made = body()
    made.feed(gzip.compress(DATA)[:-4], ENDLESS_TURN)
    assert made.check_end() == "upstream.malformed"


def test_what_went_out_unsearched_in_a_coding_cannot_be_searched_late() -> None:
    plain, coded = (ResponseBody(NO_EFFECTS, Counter(), headers, None) for headers in ((), GZIP))
    for each in (plain, coded):
        assert each.feed(b"abc", ENDLESS_TURN) == [b"abc"]
        each.search_late(NEEDLES)
    assert plain.feed(b"sesame-open!", ENDLESS_TURN) == [b"*" * 11 + b"!"]
    assert coded.feed(b"abc", ENDLESS_TURN) == CutExchange("response.withheld")


def test_memory_for_a_window_is_taken_of_the_share_and_given_back() -> None:
    pool = SharePool(decoders=Capacity(9 * MIB, 9 * MIB))
    bodies = []
    for _ in range(2):
        made = ResponseBody(NO_EFFECTS, Counter(), (), None)
        made.decode(ContentCoding.BROTLI, pool.account("box"))
        bodies.append(made)
    packed = brotli.compress(b"hello", lgwin=22)
    assert pool.used[Resource.DECODERS] == 0, "nothing is known of the window yet"
    assert bodies[0].feed(packed, ENDLESS_TURN) == [b"hello"]
    assert 4 * MIB < pool.used[Resource.DECODERS] < 5 * MIB
    assert bodies[1].feed(packed, ENDLESS_TURN) == CutExchange("limit.memory")
    bodies[0].close()
    bodies[0].close()
    assert pool.used[Resource.DECODERS] == 0
    assert bodies[1].feed(packed, ENDLESS_TURN) == [b"hello"], "and can be taken again"


class Gathering:
    """Keeps what comes until it ends; a `!` in it is a fault."""

    changes_length = True
    holds_head = True

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    @property
    def held(self) -> int:
        return sum(map(len, self.kept))

    def begin(self, status: int, headers: Headers, *, has_body: bool) -> bool:
        del status, headers
        return has_body

    def feed(self, data: bytes) -> list[bytes]:
        self.kept.append(data)
        if b"!" in data:
            raise AnswerError("mcp.answer")
        return []

    def end(self) -> list[bytes]:
        if b"?" in b"".join(self.kept):
            raise AnswerError("mcp.list")
        return [b"<", *self.kept, b">"]

    def log(self) -> Mapping[str, FactValue]:
        return {}


def test_a_reader_sees_decoded_bytes_and_the_search_sees_what_it_lets_pass() -> None:
    made = body()
    made.search(NEEDLES)
    made.read(Gathering(), OPEN_ACCOUNT)
    assert made.is_rewritten
    assert made.feed(gzip.compress(b"a sesame-open b"), ENDLESS_TURN) == []
    last = made.finish()
    assert isinstance(last, list)
    assert b"".join(last + made.end_message()) == b"<a *********** b>"


@pytest.mark.parametrize(("came", "code"), [(b"!", "mcp.answer"), (b"?", "mcp.list")])
def test_an_answer_that_its_reader_refuses_is_cut(came: bytes, code: str) -> None:
    made = ResponseBody(NO_EFFECTS, Counter(), (), None)
    made.read(Gathering(), OPEN_ACCOUNT)
    pieces = made.feed(came, ENDLESS_TURN)
    assert (pieces if isinstance(pieces, CutExchange) else made.finish()) == CutExchange(code)


def test_a_reader_keeps_no_more_than_the_sandbox_may_have() -> None:
    pool = SharePool(decoders=Capacity(2000, 1000))
    account = pool.account("box")
    made = ResponseBody(NO_EFFECTS, Counter(), (), None)
    made.read(Gathering(), account)
    assert made.feed(bytes(900), ENDLESS_TURN) == []
    assert pool.count("box", Resource.DECODERS) == 900
    assert made.feed(bytes(900), ENDLESS_TURN) == CutExchange("limit.memory")
    made.close()
    assert pool.count("box", Resource.DECODERS) == 0


def test_a_reader_that_lets_go_gives_its_memory_back() -> None:
    class Passing(Gathering):
        def feed(self, data: bytes) -> list[bytes]:
            gone, self.kept = self.kept, [data]
            return gone

    pool = SharePool(decoders=Capacity(2000, 1000))
    made = ResponseBody(NO_EFFECTS, Counter(), (), None)
    made.read(Passing(), pool.account("box"))
    assert made.feed(bytes(900), ENDLESS_TURN) == []
    assert made.feed(b"x", ENDLESS_TURN) == [bytes(900)]
    assert pool.count("box", Resource.DECODERS) == 1


@pytest.mark.parametrize("is_coded", [True, False])
def test_an_answer_that_is_read_takes_turns_however_it_is_coded(*, is_coded: bool) -> None:
    lines = b"\n" * 100_000
    made = ResponseBody(NO_EFFECTS, Counter(), GZIP if is_coded else (), None)
    if is_coded:
        made.decode(ContentCoding.GZIP, OPEN_ACCOUNT)
    reader = Gathering()
    made.read(reader, OPEN_ACCOUNT)
    assert made.feed(gzip.compress(lines) if is_coded else lines, CountedTurn(0)) == []
    assert [len(each) for each in reader.kept] == [4096]
    while made.is_behind:
        assert made.more(CountedTurn(0)) == []
    assert b"".join(reader.kept) == lines
    assert max(map(len, reader.kept)) == 4096
