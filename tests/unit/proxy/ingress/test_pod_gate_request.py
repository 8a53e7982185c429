"""The question of a gate is read strictly, and answered to the pod that it is about and to no other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.proxy.ingress.pod_gate_request import MAX_BODY_BYTES, is_gate_request
from tests.unit.proxy.ingress.test_peer_identity import SharedIngress, without_rights
from tests.unit.proxy.ingress_fixture import IngressFixture, code, status

NONCE = "0123456789abcdef"


def question(uid: str = "p-uid", nonce: str = NONCE, *, target: str = "/gate", **more: object) -> bytes:
    return posted(json.dumps({"uid": uid, "nonce": nonce, **more}).encode(), target)


def posted(body: bytes, target: str = "/gate") -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: 10.96.0.92:3128\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.fixture(name="step")
def doorstep() -> Iterator[SharedIngress]:
    step = SharedIngress()
    yield step
    step.close()


@pytest.mark.parametrize("reason", ["", "identity.pooled", "identity.pending"])
async def test_the_pod_is_told_yes_with_its_number_whatever_its_rights(
    step: SharedIngress, reason: str
) -> None:
    if reason:
        step.peers.who = without_rights(reason)
    answer = await step.ask(question())
    assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert f"\r\negress-nonce: {NONCE}\r\n".encode() in answer
    assert step.codes == []


async def test_another_pod_is_told_no(step: SharedIngress) -> None:
    answer = await step.ask(question("q-uid"))
    assert (status(answer), code(answer)) == (503, "identity.mismatch")
    assert NONCE.encode() not in answer


async def test_a_question_may_come_in_pieces(step: SharedIngress) -> None:
    call = step.call()
    for piece in (question()[:40], question()[40:-3], question()[-3:]):
        await call.send(piece)
    assert status(await call.rest()) == 204


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"uid": "p-uid"}',
        b'{"uid": "p-uid", "nonce": 7}',
        b'{"uid": "p-uid", "nonce": "a b"}',
        b'{"uid": "", "nonce": "a"}',
        b'{"uid": "p-uid\\n", "nonce": "a"}',
        b'{"uid": "p-uid", "nonce": "a", "more": 1}',
        b'{"uid": "' + b"x" * 65 + b'", "nonce": "a"}',
        b'{"uid": "p-uid", "nonce": "a"} {}',
    ],
)
async def test_whatever_else_is_asked_is_malformed(step: SharedIngress, body: bytes) -> None:
    assert code(await step.ask(posted(body))) == "request.malformed"


async def test_a_long_question_is_not_read_to_its_end(step: SharedIngress) -> None:
    body = b'{"uid": "p-uid", "nonce": "a"' + b" " * MAX_BODY_BYTES + b"}"
    assert code(await step.ask(posted(body))) == "limit.request_body"


async def test_a_client_that_leaves_within_its_question_is_nobodys_fault(step: SharedIngress) -> None:
    assert await step.ask(question()[:-1]) == b""
    assert step.codes == []


async def test_it_is_asked_at_the_port_of_the_proxy_and_nowhere_else(step: SharedIngress) -> None:
    assert code(await step.ask(question(target="/gate/"))) == "proxy.form"
    assert status(await step.ask(question(), listener=step.listener("transparent", 80))) != 204
    # A proxy that does not tell pods apart knows none.
    alone = IngressFixture()
    assert code(await alone.ask(question())) == "proxy.form"
    alone.close()


@given(st.binary(max_size=200))
async def test_no_bytes_but_a_question_are_told_yes(body: bytes) -> None:
    step = SharedIngress()
    step.peers.pod = "f00d"
    assert status(await step.ask(posted(body))) in {400, 413}
    step.close()


def test_no_head_is_no_question() -> None:
    assert not is_gate_request(None)
