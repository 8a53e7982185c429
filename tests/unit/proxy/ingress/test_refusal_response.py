"""What refused clients are told, by what they speak."""

from __future__ import annotations

from typing import cast

import pytest

from egress.errors import CODES
from egress.http1 import RequestHead, RequestReader, ResponseReader
from egress.proxy.ingress.client_stream import ClientStream
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection, SpokenProtocol
from egress.proxy.ingress.refusal_response import refusal_bytes, refusal_page
from egress.types import HostDecision, Identity, Place, RuleRef, Verdict
from tests.unit.proxy.ingress_fixture import QUICK, IngressFixture, code, connect, get, status


def head(data: bytes) -> RequestHead:
    first = RequestReader().feed(data)[0]
    assert isinstance(first, RequestHead)
    return first


def told(speaks: SpokenProtocol, refused: IngressRefusal, request: RequestHead | None = None) -> bytes:
    step = IngressFixture()
    listener = step.listener()
    step.close()
    visit = PendingConnection(
        "c1", listener, Identity("box"), cast("ClientStream", None), QUICK, 0.0, speaks, request
    )
    return refusal_bytes(visit, refused)


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize(
    "request_head", [connect("evil.example:443"), get("http://evil.example/", "evil.example")]
)
def test_every_code_is_a_whole_page_that_quotes_nobody(name: str, request_head: bytes) -> None:
    request = head(request_head)
    page = told("http", IngressRefusal(name, "connect", "evil.example", 443), request)
    assert (status(page), code(page)) == (CODES[name].status, name)
    assert b"connection: close\r\n" in page
    assert b"evil" not in page
    reader = ResponseReader()
    reader.expect(request.method)
    assert len(reader.feed(page)) == 3


def test_a_head_request_gets_no_body() -> None:
    page = told(
        "http", IngressRefusal("host.unknown"), head(get("http://a.example/", "a.example", method="HEAD"))
    )
    assert page.endswith(b"\r\n\r\n")
    assert status(page) == 403


def test_the_status_of_a_fault_and_a_wait_are_told() -> None:
    assert status(refusal_page(IngressRefusal("request.malformed", status=431), "c1")) == 431
    assert b"\r\nretry-after: 7\r\n" in refusal_page(IngressRefusal("limit.requests", retry_after=7), "c1")


def test_a_missing_password_is_asked_for() -> None:
    assert b'\r\nproxy-authenticate: Basic realm="egress"\r\n' in refusal_page(
        IngressRefusal("proxy.authentication"), "c1"
    )


def test_the_page_fits_the_client() -> None:
    request = head(connect("a.example:443", "User-Agent: git/2.39"))
    assert b"content-type: text/plain" in told("http", IngressRefusal("host.unknown"), request)


@pytest.mark.parametrize(
    ("name", "alert"),
    [
        ("host.unknown", 112),
        ("host.malformed", 112),
        ("request.mismatch", 112),
        ("host.closed", 49),
        ("rule.denied", 49),
        ("internal", 49),
    ],
)
def test_a_tls_client_gets_a_fatal_alert(name: str, alert: int) -> None:
    assert told("tls", IngressRefusal(name)) == bytes([21, 3, 3, 0, 2, 2, alert])


def test_nobody_knows_what_to_say_to_a_client_that_has_said_nothing() -> None:
    assert told("", IngressRefusal("protocol.refused")) == b""


def test_the_reason_of_a_deny_is_told() -> None:
    rule = RuleRef("deny", "no-paste", Place("hosts.yaml", 3, 5), "Pastes are public.")
    decision = HostDecision(Verdict.DENY, "rule.denied", rule=rule)
    assert b"Pastes are public." in refusal_page(IngressRefusal("rule.denied", decision=decision), "c1")
