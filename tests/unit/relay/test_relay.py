"""The entries of a relay and the orders that come of them."""

from __future__ import annotations

import pytest

from egress.relay.ports import CLIENT_WIRE, Close, Open, Reset, Write
from tests.unit.relay.wires import NOTHING, SECRET, Lab, get, h2_lab, head, policy_of, response


def test_an_exchange_is_a_row_of_orders() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(response())
    assert [type(order) for order in lab.orders] == [Open, Write, Write]
    lab.check()


def test_what_follows_on_a_wire_joins_what_is_ordered_unless_it_is_long() -> None:
    relay = Lab().relay
    relay.order(Open(1, ()))
    for size in (10, 10, 70_000, 10, 70_000):
        relay.write(CLIENT_WIRE, b"x" * size)
    relay.write(CLIENT_WIRE, b"")
    relay.write(1, b"y")
    relay.write(CLIENT_WIRE, b"z")
    orders = relay.received(CLIENT_WIRE, b"")
    assert [(o.wire, len(o.data)) for o in orders if isinstance(o, Write)] == [
        (CLIENT_WIRE, 20),
        (CLIENT_WIRE, 70_000),
        (CLIENT_WIRE, 10),
        (CLIENT_WIRE, 70_000),
        (1, 1),
        (CLIENT_WIRE, 1),
    ]


def test_a_wire_is_closed_once_and_written_to_no_more() -> None:
    relay = Lab().relay
    relay.order(Open(5, ()))
    relay.order(Open(6, ()))
    relay.close(5)
    relay.reset(5)
    relay.write(5, b"late")
    assert relay.received(CLIENT_WIRE, b"") == [Open(5, ()), Open(6, ()), Close(5)]
    relay.reset(6)
    assert relay.received(CLIENT_WIRE, b"") == [Reset(6)]


def test_with_the_client_goes_everything() -> None:
    lab = Lab()
    lab.says(get())
    lab.do(lab.relay.gone())
    assert lab.relay.is_closed
    assert lab.ended == {CLIENT_WIRE: "closed", 1: "closed"}
    assert lab.codes == ["client.left"]


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_nothing_comes_of_what_happens_after_the_end(protocol: str) -> None:
    lab = Lab() if protocol == "http/1.1" else h2_lab()[0]
    lab.shuts("proxy.stopping")
    relay, policy = lab.relay, policy_of(NOTHING)
    assert relay.received(CLIENT_WIRE, get()) == []
    assert relay.received(1, response()) == []
    assert relay.ended(CLIENT_WIRE) == relay.opened(1, "h2") == relay.failed(1, "upstream.tls") == []
    assert relay.fetched(1, {"api": SECRET}) == relay.blocked(CLIENT_WIRE, blocked=True) == relay.tick() == []
    assert (
        relay.recheck(policy, 0)
        == relay.drain()
        == relay.retire()
        == relay.gone()
        == relay.shut("internal")
        == []
    )
    assert lab.codes == []


def test_bytes_of_an_upstream_that_is_not_open_yet_are_a_fault_and_never_dropped() -> None:
    """Its settings would be lost, and with them every upload beyond the first window."""
    lab = Lab()
    lab.says(get())
    [wire] = lab.opening
    with pytest.raises(RuntimeError, match="before its connection was reported as open"):
        lab.relay.received(wire, response())
    lab.shuts("internal")
    assert lab.codes == ["internal"]


def test_secrets_are_named_while_they_are_in_use() -> None:
    lab = Lab()
    assert lab.relay.secrets == frozenset()
    lab.says(get())
    assert lab.relay.secrets == {"api"}
    lab.opens()
    lab.answers(response())
    assert lab.relay.secrets == frozenset()


def test_shut_answers_what_can_still_be_answered() -> None:
    lab = Lab()
    lab.says(get("/v1/one") + get("/v1/two"))
    lab.opens()
    lab.shuts("proxy.stopping")
    (answer,) = lab.responses()
    assert (answer.code, answer.headers["connection"]) == ("proxy.stopping", "close")
    assert lab.ended == {CLIENT_WIRE: "closed", 1: "closed"}
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(head("content-length: 5") + b"he")
    lab.shuts("proxy.stopping")
    assert lab.ended[CLIENT_WIRE] == "reset"
    assert lab.codes == ["proxy.stopping"]


def test_shut_records_every_exchange_although_one_record_fails() -> None:
    lab, client = h2_lab()
    for _ in range(3):
        client.ask()
    lab.desk.fails_at = "finish"
    lab.shuts()
    assert lab.codes == ["internal"] * 3
    assert len(set(lab.desk.recorded)) == 3
    assert lab.closed()


def test_a_request_that_could_not_be_read_has_its_record_and_an_id() -> None:
    lab = Lab()
    lab.says(b"NONSENSE\r\n\r\n")
    (answer,) = lab.responses()
    assert answer.headers["egress-request"] == lab.desk.recorded[0]
    assert (lab.record.code, lab.record.status, lab.record.method) == ("request.malformed", 400, "")


def test_a_retired_client_keeps_its_connection_until_its_next_answer() -> None:
    lab = Lab()
    lab.do(lab.relay.retire())
    assert CLIENT_WIRE not in lab.ended
    lab.says(get())
    lab.opens()
    lab.answers(response())
    assert b"connection: close\r\n" in lab.new().lower()
    assert CLIENT_WIRE in lab.ended


def test_a_retired_client_of_http2_is_answered_and_asks_nothing_more() -> None:
    lab, client = h2_lab()
    lab.do(lab.relay.retire())
    assert CLIENT_WIRE not in lab.ended
    stream = client.ask()
    late = client.ask()
    lab.opens("http/1.1")
    lab.answers(response())
    client.take()
    assert client.seen(stream).status == 200
    assert client.seen(late).reset is not None
    assert CLIENT_WIRE in lab.ended
