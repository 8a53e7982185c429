"""One exchange between two halves, whatever they speak."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.exchange import Request
from egress.http1 import CHUNKED, NO_BODY, Framing
from egress.relay.exchange_stream import IDEMPOTENT_METHODS, ExchangeStream
from egress.relay.http2_downstream import Http2Downstream, Http2DownstreamHalf
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from tests.unit.relay.wires import LIMITED, NOTHING, SECRET, Desk, Lab, get, head, policy_of, post, response


def stream(lab: Lab) -> ExchangeStream:
    (found,) = lab.relay._live
    return found


@pytest.mark.parametrize(
    ("method", "framing", "upgrade", "may"),
    [
        *[(method, NO_BODY, (), True) for method in sorted(IDEMPOTENT_METHODS)],
        ("GET", Framing.sized(0), (), True),
        ("GET", Framing.sized(1), (), False),
        ("PUT", CHUNKED, (), False),
        ("POST", NO_BODY, (), False),
        ("PATCH", NO_BODY, (), False),
        ("GET", NO_BODY, ("websocket",), False),
    ],
)
def test_what_may_be_sent_again(method: str, framing: Framing, upgrade: tuple[str, ...], may: bool) -> None:
    relay = Lab().relay
    half = Http2DownstreamHalf(Http2Downstream(relay), 1, is_whole=True)
    made = ExchangeStream(
        relay.service,
        relay.upstreams,
        half,
        Request(method, "/", (), upgrade=upgrade),
        framing,
        relay.account,
    )
    assert made.may_be_sent_again is may
    made.is_retried = True
    assert not made.may_be_sent_again


def test_the_life_of_a_stream() -> None:
    lab = Lab(at_hand=False)
    lab.says(post(b"hello")[:-1])
    each = stream(lab)
    assert (each.waits_for_client, each.is_answered, each.is_over, each.secrets) == (
        True,
        False,
        False,
        ("api",),
    )
    moves = [each.progress]
    for step in (lab.fetches, lab.opens, lambda: lab.says(b"o"), lambda: lab.answers(response()[:-1])):
        step()
        moves.append(each.progress)
    assert moves[1:] == sorted(set(moves[1:])), "every step counts as a move"
    assert (each.waits_for_client, each.is_answered, each.is_over) == (False, True, False)
    lab.answers(b"o")
    assert each.is_over
    assert lab.codes == ["rule.allowed"]


def test_what_comes_for_a_stream_that_is_over_is_dropped() -> None:
    lab = Lab()
    lab.says(get())
    each = stream(lab)
    lab.opens()
    lab.answers(response())
    before = (list(lab.desk.records), bytes(lab.sent[0]))
    each.request_data(b"x")
    each.request_end()
    each.fetched({"api": SECRET})
    each.interim(103, "", ())
    each.response(200, "", (), NO_BODY)
    each.data(b"x")
    each.response_end()
    each.client_congested(congested=True)
    each.upstream_congested(congested=True)
    each.abort("internal")
    each.give_up("internal")
    each.client_left()
    lab.waits(0)
    assert (lab.desk.records, bytes(lab.sent[0])) == before


def test_a_head_that_cannot_be_passed_on_is_the_upstreams_fault() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    each = stream(lab)
    each.response(200, "", (("content_length", "5"),), Framing.sized(5))
    lab.waits(0)
    assert lab.responses()[0].code == "upstream.malformed"


def test_interim_heads_end_somewhere() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    for _ in range(20):
        lab.do(lab.relay.received(1, head(status="103 Early Hints")))
    assert lab.codes == ["upstream.malformed"]
    lab.check()


def test_a_body_that_came_before_the_connection_stood_follows_the_head() -> None:
    lab = Lab()
    lab.says(post(b"hello")[:-2])
    assert not lab.relay.reads(0), "it is not asked for more meanwhile"
    wire = lab.opens()
    assert lab.relay.reads(0)
    lab.says(b"lo")
    assert lab.requests(wire)[0].body == b"hello"


def test_asks_what_to_look_for_with_every_step_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with the last one, and when it breaks off: a value may have become known meanwhile."""
    lab = Lab()
    asked: list[Policy] = []
    known = Desk.needles

    def needles(desk: Desk, policy: Policy) -> Needles | None:
        asked.append(policy)
        return known(desk, policy)

    monkeypatch.setattr(Desk, "needles", needles)
    lab.says(get())
    lab.opens()
    each = stream(lab)
    policy = lab.desk.current
    lab.desk.current = policy_of(NOTHING)
    steps: tuple[Callable[[], None], ...] = (
        lambda: each.interim(103, "", ()),
        lambda: each.response(200, "", (("transfer-encoding", "chunked"),), CHUNKED),
        lambda: each.data(b"x"),
        lambda: each.response_end(()),
    )
    for step in steps:
        asked.clear()
        step()
        assert asked == [policy], "by the policy that it began with"
    lab.desk.current = policy
    ends: tuple[Callable[[ExchangeStream], None], ...] = (
        lambda one: one.abort("internal"),
        ExchangeStream.client_left,
    )
    for end in ends:
        lab = Lab()
        lab.says(get())
        asked.clear()
        end(stream(lab))
        assert asked


@pytest.mark.parametrize(
    "body", [b"plain", b"as you asked: " + SECRET.reveal(), b"longer than the rules allow" * 200]
)
def test_a_response_that_comes_in_one_piece_fares_like_one_that_trickles_in(body: bytes) -> None:
    whole, pieces = Lab(LIMITED), Lab(LIMITED)
    for lab in (whole, pieces):
        lab.says(get())
        lab.opens()
    whole.answers(response(body))
    for byte in response(body):
        if not pieces.ended:
            pieces.answers(bytes([byte]))
    assert SECRET.reveal() not in whole.sent[0]
    assert whole.codes == pieces.codes
    assert len(whole.desk.records) == 1
    if whole.codes == ["rule.allowed"]:
        assert whole.sent[0] == pieces.sent[0]
        assert whole.desk.records == pieces.desk.records
