"""The upstream's side of HTTP/1.1: one exchange at a time, and fit for the next one or closed."""

from __future__ import annotations

import pytest

from egress.relay.limits import RelayLimits
from egress.relay.ports import CLIENT_WIRE, WireEnd
from tests.unit.relay.wires import Lab, get, head, post, response


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (response(), True),
        (response(b"", status="204 No Content").replace(b"Content-Length: 0\r\n", b""), True),
        (response(b"x", "connection: close"), False),
        (response(b"x").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (response() + b"x", False),
    ],
)
def test_a_connection_is_kept_where_it_is_fit(said: bytes, kept: bool) -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(said)
    assert lab.responses()[0].is_whole
    assert (wire not in lab.ended) is kept


def test_a_connection_that_nobody_uses_is_read_so_that_its_end_is_seen() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.blocks()
    assert not lab.relay.reads(wire)
    lab.answers(response())
    assert lab.relay.reads(wire)
    lab.hangs_up(wire)
    assert lab.ended[wire] == "closed"


def test_a_client_that_is_behind_holds_the_upstream() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(head("content-length: 10") + b"x")
    lab.blocks()
    assert not lab.relay.reads(wire)
    lab.drains()
    assert lab.relay.reads(wire)


def test_an_upstream_that_is_behind_holds_the_client() -> None:
    lab = Lab()
    lab.says(post(b"hello")[:-1])
    wire = lab.opens()
    lab.blocks(wire)
    assert not lab.relay.reads(CLIENT_WIRE)
    lab.drains(wire)
    assert lab.relay.reads(CLIENT_WIRE)


def test_what_is_wrong_is_the_upstreams_fault() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(b"SSH-2.0-OpenSSH\r\n\r\n")
    (answer,) = lab.responses()
    assert answer.code == "upstream.malformed"
    assert b"SSH" not in lab.sent[CLIENT_WIRE]
    assert lab.ended[wire] == "closed"


UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhalf of it"


@pytest.mark.parametrize(
    ("how", "is_strict", "is_whole"),
    [
        ("clean", True, True),
        ("unproven", False, True),
        ("unproven", True, False),
        ("cut", False, False),
        ("cut", True, False),
    ],
)
def test_a_body_that_runs_to_the_end_is_as_whole_as_that_end(
    how: WireEnd, is_strict: bool, is_whole: bool
) -> None:
    """An end that somebody on the way could have made is recorded, and enough unless it has to be strict."""
    lab = Lab(limits=RelayLimits(strict_tls_end=is_strict))
    lab.says(get())
    wire = lab.opens()
    lab.answers(UNTIL_CLOSE)
    lab.hangs_up(wire, how)
    assert lab.codes == ["rule.allowed" if is_whole else "upstream.closed"]
    assert lab.responses()[0].is_whole is is_whole
    assert lab.sent[CLIENT_WIRE].endswith(b"0\r\n\r\n") is is_whole
    assert (lab.ended.get(CLIENT_WIRE) == "reset") is not is_whole
    assert lab.record.facts == ({"close_notify": "missing"} if is_whole and how == "unproven" else {})


def test_a_body_that_runs_to_the_end_and_is_empty_so_far_may_be_cut_too() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(UNTIL_CLOSE.removesuffix(b"half of it"))
    lab.hangs_up(how="cut")
    assert lab.codes == ["upstream.closed"]


@pytest.mark.parametrize(
    "said",
    [response(b"x"), response(b"x", "connection: close"), head("transfer-encoding: chunked") + b"0\r\n\r\n"],
)
@pytest.mark.parametrize("how", ["unproven", "cut"])
def test_a_body_that_says_its_end_does_not_care_how_the_connection_ends(said: bytes, how: WireEnd) -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(said)
    if wire not in lab.ended:
        lab.hangs_up(wire, how)
    assert lab.codes == ["rule.allowed"]
    assert lab.responses()[0].is_whole


@pytest.mark.parametrize(
    "said", [head("content-length: 5") + b"half", head("transfer-encoding: chunked") + b"4\r\nhalf"]
)
@pytest.mark.parametrize("how", ["clean", "unproven", "cut"])
def test_a_body_that_misses_its_end_is_cut_however_the_connection_ends(said: bytes, how: WireEnd) -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(said)
    lab.hangs_up(how=how)
    assert lab.codes == ["upstream.closed"]
    assert not lab.responses()[0].is_whole
    assert lab.record.facts == {}


def test_a_kept_connection_that_is_cut_is_as_good_as_one_that_is_closed() -> None:
    """The next request goes over another one."""
    lab = Lab()
    lab.says(get())
    first = lab.opens()
    lab.answers(response())
    lab.says(get())
    lab.hangs_up(first, "cut")
    lab.opens()
    lab.answers(response())
    assert lab.codes == ["rule.allowed"] * 2
