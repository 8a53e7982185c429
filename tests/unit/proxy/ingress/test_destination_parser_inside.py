"""What a tunnel may begin with; the attack tests hold the long list of what it may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import IngressFixture, connect, get


@pytest.fixture(name="step")
def doorstep() -> Iterator[IngressFixture]:
    step = IngressFixture()
    yield step
    step.close()


async def test_the_hello_goes_on_with_the_arrival_and_unread(step: IngressFixture) -> None:
    first = real("api.example.com", ["h2", "http/1.1"])
    await step.ask(connect("api.example.com:443"), first)
    [admitted] = step.full.arrivals
    assert admitted.hello is not None
    assert (admitted.hello.sni, admitted.hello.alpn) == ("api.example.com", ("h2", "http/1.1"))
    assert step.ahead == [first]


async def test_plain_http_has_no_hello_and_is_unread_too(step: IngressFixture) -> None:
    request = get("/", "plain.example.com:8080", "Content-Length: 4", method="POST") + b"body"
    await step.ask(connect("plain.example.com:8080"), request)
    [admitted] = step.full.arrivals
    assert admitted.hello is None
    assert admitted.destination.scheme == "http"
    assert step.ahead == [request]


async def test_a_client_that_opens_a_tunnel_and_leaves_is_nobodys_fault(step: IngressFixture) -> None:
    await step.ask(connect("api.example.com:443"))
    assert step.codes == []
    assert step.arrivals == []


async def test_a_refusal_inside_is_recorded_with_the_destination_and_the_other_name(
    step: IngressFixture,
) -> None:
    await step.ask(connect("api.example.com:443"), real("evil.example"))
    refusal = step.last
    assert (refusal.entry, refusal.host, refusal.port) == ("connect", "api.example.com", 443)
    assert (refusal.code, refusal.sni) == ("request.mismatch", "evil.example")


async def test_a_wrong_request_inside_a_plain_tunnel_is_told_so(step: IngressFixture) -> None:
    answer = await step.ask(connect("plain.example.com:80"), get("/", "evil.example"))
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 421 " in answer
