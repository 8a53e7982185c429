"""SNI and Host name the destination, the listener its port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.exchange import Destination
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import IngressFixture, get


@pytest.fixture(name="step")
def doorstep() -> Iterator[IngressFixture]:
    step = IngressFixture()
    yield step
    step.close()


async def test_the_port_is_the_one_that_was_dialled(step: IngressFixture) -> None:
    await step.ask(real("ported.example.com"), listener=step.listener("transparent", 8443))
    request = get("/", "plain.example.com:8080")
    await step.ask(request, listener=step.listener("transparent", 8080))
    assert [admitted.destination for admitted in step.arrivals] == [
        Destination("https", "ported.example.com", 8443),
        Destination("http", "plain.example.com", 8080),
    ]


async def test_bytes_of_a_pinned_host_go_by_the_other_lane(step: IngressFixture) -> None:
    await step.ask(real("pinned.example.com"), listener=step.listener("transparent", 443))
    assert len(step.tunnel.arrivals) == 1


async def test_an_options_request_for_the_server_itself_is_one(step: IngressFixture) -> None:
    request = get("*", "plain.example.com", method="OPTIONS")
    await step.ask(request, listener=step.listener("transparent", 80))
    assert len(step.full.arrivals) == 1


async def test_a_client_that_says_nothing_and_leaves_is_nobodys_fault(step: IngressFixture) -> None:
    assert await step.ask(b"", listener=step.listener("transparent", 443)) == b""
    assert step.codes == []


async def test_a_name_that_is_none_is_recorded_as_it_stood(step: IngressFixture) -> None:
    await step.ask(get("/", "127.1"), listener=step.listener("transparent", 80))
    assert (step.last.code, step.last.host, step.last.port) == ("host.malformed", "127.1", 80)
