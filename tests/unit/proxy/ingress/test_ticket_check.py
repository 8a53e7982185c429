"""Tickets at the door: only on listeners for proxies, and wrong ones are counted by sandbox."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from egress.http1 import RequestHead, RequestReader
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Listener, ListenerKind
from egress.proxy.ingress.pending_connection import PendingConnection, RequestedDestination
from egress.proxy.ingress.ticket_check import MAX_BUCKETS, TicketCheck
from egress.run_ticket import ticket_digest, ticket_text
from egress.types import Identity
from egress.wrong_tokens import MAX_WRONG_TOKENS
from tests.unit.proxy.ingress_fixture import Clock

TICKET = ticket_text(bytes(32))
ASKED = RequestedDestination("connect", ("https",), "api.example.com", 443)


class FakeTickets:
    """Knows one ticket."""

    def __init__(self) -> None:
        self.answer: Identity | str = Identity("box", "writer", ticket="t-1")
        self.live = True

    async def redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:
        return self.answer if digest == ticket_digest(TICKET) else "ticket.unknown"

    def is_live(self, identity: Identity) -> bool:
        return self.live


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def head_with(*users: str, scheme: str = "Basic") -> RequestHead:
    fields = "".join(
        f"proxy-authorization: {scheme} {base64.b64encode(f'{user}:x'.encode()).decode()}\r\n"
        for user in users
    )
    data = f"CONNECT api.example.com:443 HTTP/1.1\r\nhost: api.example.com:443\r\n{fields}\r\n"
    [head] = [each for each in RequestReader().feed(data.encode()) if isinstance(each, RequestHead)]
    return head


def pending(
    sock: socket.socket, head: RequestHead | None, sandbox: str = "box", kind: ListenerKind = "proxy"
) -> PendingConnection:
    listener = Listener("l", kind, sandbox, sock)
    return PendingConnection(
        "c1",
        listener,
        Identity(sandbox),
        None,  # type: ignore[arg-type]
        IngressLimits(),
        0.0,
        head=head,
    )


async def test_a_ticket_gives_a_connection_the_rights_of_its_run(sock: socket.socket) -> None:
    check, known = TicketCheck(FakeTickets(), Clock()), pending(sock, head_with(TICKET))
    assert await check.refusal(known, ASKED) is None
    assert known.identity == Identity("box", "writer", ticket="t-1")


@pytest.mark.parametrize("users", [(), ("somebody",), ("",)])
async def test_without_a_ticket_nothing_changes(sock: socket.socket, users: tuple[str, ...]) -> None:
    check, known = TicketCheck(FakeTickets(), Clock()), pending(sock, head_with(*users))
    assert await check.refusal(known, ASKED) is None
    assert known.identity == Identity("box")


async def test_a_ticket_means_nothing_elsewhere_than_at_a_proxy(sock: socket.socket) -> None:
    check = TicketCheck(FakeTickets(), Clock())
    for known in (
        pending(sock, head_with(TICKET), kind="transparent"),
        pending(sock, None),
        pending(sock, head_with(TICKET, scheme="Bearer")),
    ):
        assert await check.refusal(known, ASKED) is None
        assert known.identity == Identity("box")


async def test_a_reason_of_another_kind_is_no_guess(sock: socket.socket) -> None:
    tickets = FakeTickets()
    tickets.answer = "profile.ceiling"
    check = TicketCheck(tickets, Clock())
    for _ in range(MAX_WRONG_TOKENS + 5):
        refused = await check.refusal(pending(sock, head_with(TICKET)), ASKED)
        assert refused is not None
        assert (refused.code, refused.host) == ("profile.ceiling", "api.example.com")


async def test_wrong_tickets_are_counted_by_sandbox_and_the_count_has_bounds(sock: socket.socket) -> None:
    check, wrong = TicketCheck(FakeTickets(), Clock()), head_with(ticket_text(bytes(31) + b"x"))

    async def code(sandbox: str) -> str:
        refused = await check.refusal(pending(sock, wrong, sandbox), ASKED)
        assert refused is not None
        return refused.code

    codes = [await code("box") for _ in range(MAX_WRONG_TOKENS + 1)]
    assert codes == ["ticket.unknown"] * MAX_WRONG_TOKENS + ["limit.requests"]
    assert await code("other") == "ticket.unknown"
    # So many sandboxes that the first count is forgotten.
    for number in range(MAX_BUCKETS):
        await code(f"s{number}")
    assert await code("box") == "ticket.unknown"


def test_only_a_run_ends_with_its_ticket() -> None:
    tickets = FakeTickets()
    check = TicketCheck(tickets, Clock())
    assert check.ended(Identity("box", ticket="t-1")) is None
    tickets.live = False
    ended = check.ended(Identity("box", ticket="t-1"))
    assert ended is not None
    assert ended.code == "ticket.ended"
    assert check.ended(Identity("box")) is None
