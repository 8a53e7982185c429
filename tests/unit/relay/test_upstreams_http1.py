"""The upstream's side of HTTP/1.1: one exchange at a time, and fit for the next one or closed."""

from __future__ import annotations

import pytest

from egress.relay.ports import CLIENT_WIRE
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


@pytest.mark.parametrize(("clean", "code"), [(True, "rule.allowed"), (False, "upstream.closed")])
def test_a_body_that_runs_to_the_end_is_whole_only_if_the_end_is_clean(clean: bool, code: str) -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(UNTIL_CLOSE)
    lab.hangs_up(wire, clean=clean)
    assert lab.codes == [code]
    assert lab.responses()[0].is_whole is clean
    assert lab.sent[CLIENT_WIRE].endswith(b"0\r\n\r\n") is clean
    assert (lab.ended.get(CLIENT_WIRE) == "reset") is not clean


def test_a_body_that_runs_to_the_end_and_is_empty_so_far_may_be_cut_too() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(UNTIL_CLOSE.removesuffix(b"half of it"))
    lab.hangs_up(clean=False)
    assert lab.codes == ["upstream.closed"]


@pytest.mark.parametrize(
    "said",
    [response(b"x"), response(b"x", "connection: close"), head("transfer-encoding: chunked") + b"0\r\n\r\n"],
)
def test_a_body_that_says_its_end_does_not_care_how_the_connection_ends(said: bytes) -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(said)
    if wire not in lab.ended:
        lab.hangs_up(wire, clean=False)
    assert lab.codes == ["rule.allowed"]
    assert lab.responses()[0].is_whole


def test_a_kept_connection_that_is_cut_is_as_good_as_one_that_is_closed() -> None:
    """The next request goes over another one."""
    lab = Lab()
    lab.says(get())
    first = lab.opens()
    lab.answers(response())
    lab.says(get())
    lab.hangs_up(first, clean=False)
    lab.opens()
    lab.answers(response())
    assert lab.codes == ["rule.allowed"] * 2
