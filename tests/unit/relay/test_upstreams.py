"""Which connection carries which exchange."""

from __future__ import annotations

from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import Lab, Peer, get, h2_lab, response


def test_a_client_of_http1_is_never_asked_about_http2() -> None:
    lab = Lab()
    lab.says(get())
    assert list(lab.opening.values()) == [("http/1.1",)]


def test_one_connection_finds_out_and_the_others_wait_for_it() -> None:
    lab, client = h2_lab()
    for _ in range(3):
        client.ask()
    assert list(lab.opening.values()) == [("h2", "http/1.1")]
    lab.opens("http/1.1")
    assert list(lab.opening.values()) == [("http/1.1",)] * 2
    client.ask()
    assert len(lab.opening) == 3


def test_one_connection_carries_all_where_the_upstream_speaks_http2() -> None:
    lab, client = h2_lab()
    for _ in range(3):
        client.ask()
    server = Peer(lab, wire=lab.opens("h2"))
    client.ask()
    server.flush()
    assert not lab.opening
    assert sorted(server.streams) == [1, 3, 5, 7]


def test_a_connection_that_cannot_be_made_fails_all_that_wait_for_it() -> None:
    lab, client = h2_lab()
    streams = [client.ask() for _ in range(3)]
    lab.fails("upstream.tls")
    client.flush()
    assert {client.seen(stream).code for stream in streams} == {"upstream.tls"}
    client.ask()
    assert lab.opening, "the next one tries again"
    lab.check()


def test_a_connection_is_called_off_when_nobody_needs_it_any_more() -> None:
    lab, client = h2_lab()
    client.reset(client.ask())
    assert not lab.opening
    assert lab.ended[1] == "closed"
    client.ask()
    lab.opens("http/1.1")
    lab.answers(response())
    client.ask()
    client.reset(client.ask())
    assert not lab.opening
    lab.check()


def test_what_is_opened_for_nobody_is_closed() -> None:
    lab = Lab()
    lab.says(get())
    lab.sent[9] = bytearray()
    lab.do(lab.relay.opened(9, ""))
    assert lab.ended[9] == "closed"
    assert not lab.requests(9)


def test_facts_about_wires_and_tickets_that_are_unknown_change_nothing() -> None:
    lab = Lab()
    relay = lab.relay
    lab.do(
        [*relay.failed(9, "upstream.tls"), *relay.fetched(9, {}), *relay.ended(9), *relay.received(9, b"x")]
    )
    lab.do(relay.blocked(9, blocked=True))
    assert lab.orders == []
    assert relay.reads(9)


def test_connections_are_used_again_and_closed_with_the_client() -> None:
    lab = Lab()
    for number in range(3):
        lab.says(get(f"/v1/{number}"))
        if lab.opening:
            lab.opens()
        lab.answers(response())
    assert len(lab.requests()) == 3
    lab.leaves()
    assert lab.ended == {CLIENT_WIRE: "closed", 1: "closed"}


def test_a_drained_relay_keeps_no_connection() -> None:
    lab, client = h2_lab()
    client.ask()
    client.ask()
    lab.opens("http/1.1")
    lab.opens("http/1.1")
    lab.do(lab.relay.drain())
    lab.answers(response(), wire=1)
    assert lab.ended[1] == "closed"
