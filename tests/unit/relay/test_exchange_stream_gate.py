"""The body gate between two connections: nothing leaves before the verdict, and all leaves as it came."""

from __future__ import annotations

import json

import pytest

from egress.inspect.graphql.graphql_kind import MAX_GRAPHQL_BYTES
from egress.relay.limits import RelayLimits
from egress.shares.pool import Capacity, Resource, SharePool
from egress.types import Verdict
from tests.unit.inspect.graphql.vectors import READ, envelope
from tests.unit.relay.wires import NAME, Lab, Peer, get, h2_lab, response

RULES = """
version: 1
secrets:
  api: {from: "env:API", hosts: ["api.example.test"]}
hosts:
  api.example.test:
    allow:
      - {id: plain, paths: ["/v1/**"]}
      - {id: read, paths: ["/graphql"], graphql: {query: [viewer]}}
    inject:
      - bearer: api
"""
GOOD = envelope(READ)
BAD = envelope("mutation{drop}")


def head_of(*fields: str) -> bytes:
    lines = ("POST /graphql HTTP/1.1", f"Host: {NAME}", "Content-Type: application/json", *fields, "", "")
    return "\r\n".join(lines).encode()


def sized(body: bytes, *fields: str) -> bytes:
    return head_of(f"Content-Length: {len(body)}", *fields)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = head_of("Transfer-Encoding: chunked")


def test_an_allowed_body_is_sent_as_it_came() -> None:
    lab = Lab(RULES)
    lab.says(sized(GOOD) + GOOD)
    lab.opens()
    (asked,) = lab.requests()
    assert asked.body == GOOD
    lab.answers(response())
    record = lab.record
    assert (record.verdict, record.bytes_up) == (Verdict.ALLOW, len(GOOD))
    assert record.facts["graphql_query"] == "viewer"
    assert (record.facts["body"], record.facts["body_bytes"]) == ("graphql", len(GOOD))


def test_nothing_is_dialled_announced_or_fetched_before_the_verdict() -> None:
    lab = Lab(RULES, at_hand=False)
    lab.says(sized(GOOD) + GOOD[:-1])
    assert not lab.opening
    assert not lab.desk.begun
    assert not lab.fetching
    lab.says(GOOD[-1:])
    lab.fetches()
    lab.opens()
    assert lab.requests()[0].body == GOOD


def test_a_denied_body_is_answered_in_its_language_and_leaves_no_trace_upstream() -> None:
    lab = Lab(RULES, at_hand=False)
    lab.says(sized(BAD) + BAD)
    assert not lab.opening
    assert not lab.fetching
    (answer,) = lab.responses("POST")
    assert (answer.status, answer.headers["egress-denied"]) == (403, "graphql.field")
    said = json.loads(answer.body)
    assert said["errors"][0]["extensions"]["code"] == "graphql.field"
    assert "mutation.drop" in said["message"]
    assert lab.record.facts["body_item"] == "mutation.drop"
    assert lab.record.verdict is Verdict.DENY


def test_a_kept_connection_goes_on_after_a_denial() -> None:
    lab = Lab(RULES)
    lab.says(sized(BAD) + BAD)
    lab.says(sized(GOOD) + GOOD)
    lab.opens()
    assert lab.requests()[0].body == GOOD


def test_the_verdict_does_not_depend_on_the_pieces() -> None:
    for body, opens in ((GOOD, True), (BAD, False)):
        lab = Lab(RULES)
        lab.says(CHUNKED)
        for at in range(len(body)):
            lab.says(chunk(body[at : at + 1]))
        lab.says(b"0\r\n\r\n")
        assert bool(lab.opening) is opens


def test_a_trailer_reaches_nobody() -> None:
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(GOOD) + b"0\r\nX-Query: mutation\r\n\r\n")
    wire = lab.opens()
    assert b"mutation" not in lab.new(wire)


def test_a_client_that_waits_is_told_to_go_on_by_us() -> None:
    lab = Lab(RULES)
    lab.says(sized(GOOD, "Expect: 100-continue"))
    assert lab.new() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert not lab.opening
    lab.says(GOOD)
    lab.opens()
    (asked,) = lab.requests()
    assert asked.body == GOOD
    assert "expect" not in asked.headers


def test_a_refused_head_is_not_asked_for_its_body() -> None:
    lab = Lab(RULES)
    lab.says(sized(GOOD, "Expect: 100-continue", "Content-Encoding: gzip"))
    assert lab.codes == ["body.encoding"]
    assert b"100 Continue" not in lab.new()


def test_a_plain_rule_beside_it_streams_as_before() -> None:
    lab = Lab(RULES)
    lab.says(f"POST /v1/x HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9\r\n\r\n".encode())
    lab.opens()
    assert not lab.desk.records


@pytest.mark.parametrize("extra", [0, 1])
def test_a_body_over_the_cap_is_refused(extra: int) -> None:
    lab = Lab(RULES)
    body = GOOD + b" " * (MAX_GRAPHQL_BYTES - len(GOOD) + extra)
    lab.says(sized(body) + body)
    assert lab.codes == (["body.too_large"] if extra else [])
    assert bool(lab.opening) is not extra


def test_bodies_of_all_connections_share_the_memory() -> None:
    pool = SharePool(held_bodies=Capacity(1000, 100))
    limits = RelayLimits(pool=pool)
    first, second = Lab(RULES, limits=limits), Lab(RULES, limits=limits)
    first.says(sized(b"x" * 90) + b"x" * 80)
    assert pool.count("box", Resource.HELD_BODIES) == 80
    second.says(sized(b"x" * 90) + b"x" * 30)
    assert second.codes == ["limit.held_bodies"]
    first.leaves()
    assert pool.count("box", Resource.HELD_BODIES) == 0
    third = Lab(RULES, limits=limits)
    third.says(sized(GOOD) + GOOD)
    third.opens()
    assert third.requests()[0].body == GOOD
    assert pool.count("box", Resource.HELD_BODIES) == 0


def test_a_body_that_does_not_come_is_not_awaited_for_ever() -> None:
    lab = Lab(RULES)
    lab.says(sized(GOOD) + GOOD[:3])
    lab.waits(130, steps=13)
    assert lab.codes == ["request.timeout"]


def test_a_request_without_a_body_is_judged_at_once() -> None:
    lab = Lab(RULES)
    lab.says(sized(b""))
    assert lab.codes == ["body.json"]


def upgrade(target: str) -> bytes:
    return get(
        target,
        "Upgrade: websocket",
        "Connection: upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )


def test_a_websocket_on_a_claimed_path_is_refused() -> None:
    lab = Lab(RULES)
    lab.says(upgrade("/graphql"))
    assert lab.codes == ["rule.websocket"]


@pytest.mark.parametrize(("denies", "codes"), [(True, ["rule.websocket"]), (False, [])])
def test_a_query_beside_a_handshake_does_not_open_a_websocket(denies: bool, codes: list[str]) -> None:
    """What the frames ask for is read by no rule, so a deny on bodies is about each of them."""
    deny = "\n    deny: [{id: no, paths: [/graphql], graphql: {mutation: [drop]}}]" if denies else ""
    allow = "allow: [{id: socket, paths: [/graphql], websocket: true}]"
    lab = Lab(f"version: 1\nhosts:\n  {NAME}:\n    {allow}{deny}\n")
    lab.says(upgrade("/graphql?query=%7Bviewer%7D"))
    assert lab.codes == codes
    assert bool(lab.opening) is not denies


# HTTP/2 -------------------------------------------------------------------------------------------

TYPE = ("content-type", "application/json")


def ask(client: Peer, body: bytes, *fields: tuple[str, str], ends: bool = True) -> int:
    return client.ask("/graphql", TYPE, *fields, method="POST", body=body, ends=ends)


def test_http2_sends_an_allowed_body_as_it_came() -> None:
    lab, client = h2_lab(RULES)
    stream = ask(client, GOOD[:9], ends=False)
    assert not lab.opening
    client.say(stream, GOOD[9:], ends=True)
    wire = lab.opens("http/1.1")
    assert lab.requests(wire)[0].body == GOOD


def test_http2_answers_a_denied_body_in_its_language() -> None:
    lab, client = h2_lab(RULES)
    seen = client.seen(ask(client, BAD))
    assert not lab.opening
    assert (seen.status, seen.header("egress-denied")) == (403, "graphql.field")
    assert json.loads(seen.body)["errors"]
    other = ask(client, GOOD)
    wire = lab.opens("http/1.1")
    assert lab.requests(wire)[0].body == GOOD
    assert not client.seen(other).is_whole


def test_http2_tells_a_client_that_waits_to_go_on() -> None:
    lab, client = h2_lab(RULES)
    stream = client.ask("/graphql", TYPE, ("expect", "100-continue"), method="POST", ends=False)
    assert client.seen(stream).interim == ["100"]
    client.say(stream, GOOD, ends=True)
    lab.opens("http/1.1")
