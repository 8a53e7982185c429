"""A refused push is read into nothing, as git reads no answer before; an allowed one goes up in parts."""

from __future__ import annotations

import pytest

from egress.inspect.git import git_kind
from egress.shares.pool import Resource
from egress.types import Verdict
from tests.unit.inspect.git.git_bytes import ZERO, A, command_lines, commit, pack_of
from tests.unit.relay.wires import NAME, Lab, Peer, get, h2_lab, response

RULES = """
version: 1
secrets:
  api: {from: "env:API", hosts: ["api.example.test"]}
hosts:
  api.example.test:
    allow:
      - {id: plain, paths: ["/v1/**"]}
      - {id: push, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}
    inject:
      - bearer: api
"""
MAIN = command_lines((ZERO, A, "refs/heads/main")) + b"PACK"
NG = b"ng refs/heads/main no rule allows a push to this ref\n"


def head_of(*fields: str) -> bytes:
    lines = (
        *("POST /acme/app/git-receive-pack HTTP/1.1", f"Host: {NAME}"),
        *("Content-Type: application/x-git-receive-pack-request", *fields, "", ""),
    )
    return "\r\n".join(lines).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = head_of("Transfer-Encoding: chunked")


def test_the_answer_waits_for_the_end_of_the_body() -> None:
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(MAIN))
    for _ in range(50):
        lab.says(chunk(b"x" * 60_000))
    assert NG not in bytes(lab.sent[0])
    assert not lab.opening
    lab.says(b"0\r\n\r\n")
    assert NG in bytes(lab.sent[0])
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "git.ref")
    # The connection is sound: the client goes on with its next request.
    lab.says(get("/v1/a"))
    lab.opens()
    lab.answers(response())
    assert len(lab.requests()) == 1


def test_the_drain_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_kind, "MAX_DRAINED_BYTES", 100_000)
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(MAIN) + chunk(b"x" * 60_000))
    assert NG not in bytes(lab.sent[0])
    lab.says(chunk(b"x" * 60_000))
    assert NG in bytes(lab.sent[0])


def test_a_client_that_leaves_meanwhile_is_recorded_as_refused() -> None:
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(MAIN))
    lab.leaves()
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "git.ref")


def test_the_end_of_the_proxy_is_no_way_out_of_a_refusal() -> None:
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(MAIN))
    lab.shuts("proxy.stopping")
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "git.ref")
    assert not lab.opening


def test_an_allowed_push_goes_up_as_it_came() -> None:
    """Vector 19: the secret is added after the commands were judged, and the pack is not waited for."""
    new = commit(A)
    body = command_lines((A, new.oid, "refs/heads/agent/x")) + pack_of(new)
    lab = Lab(RULES)
    lab.says(head_of(f"Content-Length: {len(body) + 200_000}") + body[:200])
    assert not lab.opening
    lab.says(body[200:])
    lab.opens()
    lab.says(b"y" * 200_000)
    (asked,) = lab.requests()
    assert asked.body == body + b"y" * 200_000
    assert asked.headers["authorization"].startswith("Bearer ")
    lab.answers(response())
    assert lab.record.facts["git_ref_1"] == f"update refs/heads/agent/x {A} {new.oid} forward"


X = "refs/heads/agent/x"
TYPE = ("content-type", "application/x-git-receive-pack-request")


def long_push() -> bytes:
    """A push whose verdict needs all of it: the last commit of its pack is the one that proves it."""
    made = [commit(A)]
    while len(made) < 6000:
        made.append(commit(made[-1].oid))
    return command_lines((A, made[-1].oid, X)) + pack_of(*reversed(made))


def held(lab: Lab) -> int:
    return lab.relay.account.taken[Resource.HELD_BODIES]


def test_the_share_is_given_back_as_the_upstream_takes_the_body() -> None:
    """What waits for a slow upstream takes memory still."""
    body = long_push()
    lab = Lab(RULES)
    lab.says(head_of(f"Content-Length: {len(body)}"))
    for at in range(0, len(body), 60_000):
        lab.says(body[at : at + 60_000])
    assert held(lab) == len(body) > 2 * lab.desk.buffer_bytes
    lab.is_slow = True
    wire = lab.opens()
    assert 0 < len(body) - held(lab) < lab.desk.buffer_bytes + 60_000
    lab.blocks(wire)
    waiting = held(lab)
    for _ in range(3):
        lab.again()
    assert held(lab) == waiting
    lab.drains(wire)
    for _ in range(20):
        lab.again()
    assert held(lab) == 0
    (asked,) = lab.requests(wire)
    assert (asked.body, asked.is_whole) == (body, True)
    lab.answers(response())
    assert lab.record.verdict is Verdict.ALLOW


def test_bytes_that_come_meanwhile_stay_behind_those_that_were_held() -> None:
    body = long_push()
    lab = Lab(RULES)
    lab.says(CHUNKED + chunk(body))
    lab.is_slow = True
    wire = lab.opens()
    lab.says(chunk(b"more"))
    lab.says(b"0\r\n\r\n")
    assert not lab.requests(wire)[0].is_whole
    for _ in range(20):
        lab.again()
    (asked,) = lab.requests(wire)
    assert (asked.body, asked.is_whole) == (body + b"more", True)


def test_http2_takes_a_held_push_on_both_sides() -> None:
    body = long_push()
    lab, client = h2_lab(RULES)
    stream = client.ask("/acme/app/git-receive-pack", TYPE, method="POST", ends=False)
    client.say(stream, body, ends=True)
    assert held(lab) > 2 * lab.desk.buffer_bytes
    wire = lab.opens("h2")
    server = Peer(lab, wire=wire, reads=False)
    waiting = held(lab)
    # The window of the stream is closed, and the queue before it is full.
    assert waiting > 0
    for _ in range(3):
        lab.again()
    assert held(lab) == waiting
    server.h2.increment_flow_control_window(len(body))
    server.h2.increment_flow_control_window(len(body), server.newest)
    server.flush()
    seen = server.seen(server.newest)
    assert (seen.body == body, seen.is_whole, held(lab)) == (True, True, 0)
    server.reply(server.newest)
    client.flush()
    assert client.seen(stream).status == 200


def test_a_client_that_leaves_gives_back_all_of_its_share() -> None:
    body = long_push()
    lab, client = h2_lab(RULES)
    stream = client.ask("/acme/app/git-receive-pack", TYPE, method="POST", ends=False)
    client.say(stream, body, ends=True)
    Peer(lab, wire=lab.opens("h2"), reads=False)
    assert held(lab) > 0
    client.reset(stream)
    assert held(lab) == 0
