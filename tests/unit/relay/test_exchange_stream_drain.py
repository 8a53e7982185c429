"""A refused push: its pack is read into nothing, because git reads no answer before it has sent it."""

from __future__ import annotations

import pytest

from egress.inspect.git import git_kind
from egress.types import Verdict
from tests.unit.inspect.git.git_bytes import ZERO, A, command_lines, commit, pack_of
from tests.unit.relay.wires import NAME, Lab, get, response

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
