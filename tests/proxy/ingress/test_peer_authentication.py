"""Who is served: S-54 (guesses), S-78 (another user of this machine)."""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace

import pytest

from egress.proxy.ingress import peer_authentication
from egress.proxy.ingress.listener import Listener, listen, password_digest
from egress.proxy.ingress.peer_authentication import PeerOwner, owner_of_peer
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import QUICK, IngressFixture, code, connect, status

API = "api.example.com"
WRONG = "Basic " + b64encode(b"box:hunter3").decode()
RIGHT = "Basic " + b64encode(b"box:hunter2").decode()


@pytest.fixture(name="step")
def doorstep() -> Iterator[IngressFixture]:
    step = IngressFixture(bounds=replace(QUICK, wrong_passwords=3, wrong_password_time=10.0))
    yield step
    step.close()


@pytest.fixture(name="asking")
def a_listener_that_asks(step: IngressFixture) -> Listener:
    return step.listener(authentication="password", password=password_digest("hunter2"))


# The user ---------------------------------------------------------------------------------------


def test_only_the_owner_of_the_listener_is_served() -> None:
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()) as client:
        sock.settimeout(None)
        server, _ = sock.accept()
        with server:
            ours = Listener("x", "proxy", "box", sock, "owner-uid")
            assert ours.owner == os.geteuid()
            other = replace(ours, owner=os.geteuid() + 1)
            assert owner_of_peer(ours, server) is PeerOwner.EXPECTED
            assert owner_of_peer(other, server) is PeerOwner.FOREIGN
            assert owner_of_peer(replace(other, authentication="network"), server) is PeerOwner.EXPECTED
            client.shutdown(socket.SHUT_WR)
            assert owner_of_peer(other, server) is PeerOwner.FOREIGN, "it only sends no more"
            client.close()
            assert owner_of_peer(ours, server) is owner_of_peer(other, server) is PeerOwner.GONE


def test_a_client_whose_connection_was_reset_is_gone() -> None:
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()) as client:
        sock.settimeout(None)
        server, _ = sock.accept()
        with server:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            ours = Listener("x", "proxy", "box", sock, "owner-uid")
            assert owner_of_peer(ours, server) is PeerOwner.GONE


def test_a_client_that_nobody_can_tell_of_is_foreign_while_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in another network of the same machine, of which the kernel says nothing here."""
    monkeypatch.setattr(peer_authentication, "owner_of", lambda *_: None)
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        sock.settimeout(None)
        server, _ = sock.accept()
        with server:
            ours = Listener("x", "proxy", "box", sock, "owner-uid")
            assert owner_of_peer(ours, server) is PeerOwner.FOREIGN


@pytest.mark.parametrize("sent", [b"", connect(f"{API}:443")])
async def test_a_client_that_hung_up_before_it_was_looked_at_is_in_no_line(
    step: IngressFixture, sent: bytes
) -> None:
    """It would read as an attack by another user, since nobody owns its end any more."""
    with listen("127.0.0.1", 0) as sock:
        with socket.create_connection(sock.getsockname()) as client:
            sock.settimeout(None)
            server, _ = sock.accept()
            server.settimeout(0)
            client.sendall(sent)
        await step.door.take(Listener("x", "proxy", "box", sock, "owner-uid"), server)
    assert step.codes == []
    assert step.arrivals == []


async def test_a_peer_without_an_address_is_nobody(step: IngressFixture) -> None:
    """A pair of sockets stands for a connection of which the kernel can say nothing."""
    listener = step.listener(authentication="owner-uid")
    assert code(await step.ask(connect(f"{API}:443"), listener=listener)) == "proxy.identity"
    transparent = replace(listener, kind="transparent")
    assert await step.ask(real(API), listener=transparent) == b""
    assert step.codes == ["proxy.identity"] * 2


# The password -----------------------------------------------------------------------------------


async def ask(step: IngressFixture, listener: Listener, *given: str) -> str:
    lines = [f"Proxy-Authorization: {value}" for value in given]
    answer = await step.ask(connect(f"{API}:443", *lines) + real(API), listener=listener)
    return "carried" if answer.endswith(b"carried by full") else code(answer)


@pytest.mark.parametrize(
    "given", [RIGHT, RIGHT.replace("Basic", "basic"), "Basic " + b64encode(b":hunter2").decode()]
)
async def test_the_right_password_is_served(step: IngressFixture, asking: Listener, given: str) -> None:
    assert await ask(step, asking, given) == "carried"
    assert step.arrivals[0].identity.sandbox == "box"


async def test_a_client_that_was_not_asked_yet_is_asked(step: IngressFixture, asking: Listener) -> None:
    answer = await step.ask(connect(f"{API}:443"), listener=asking)
    assert status(answer) == 407
    assert b'\r\nproxy-authenticate: Basic realm="egress"\r\n' in answer
    assert step.codes == ["proxy.authentication"]


@pytest.mark.parametrize(
    "given",
    [
        [WRONG], [RIGHT, RIGHT], [RIGHT, WRONG], ["Bearer hunter2"], ["hunter2"], ["Basic"],
        ["Basic hunter2"],
        ["Basic " + b64encode(b"hunter2").decode()], ["Basic " + b64encode(b"hunter2:").decode()],
        ["Basic " + b64encode(b"box:hunter2x").decode()], ["Basic " + b64encode(b"box:Hunter2").decode()],
        ["Basic " + b64encode(b"box: hunter2").decode()], ["Basic =" + b64encode(b"box:hunter2").decode()],
        ["Basic " + b64encode(b"box:\xff").decode()], ["Basic \xff"], [""],
        ["Basic " + b64encode(password_digest("hunter2")).decode()],
    ],
)  # fmt: skip
async def test_anything_but_the_right_password_is_refused(
    step: IngressFixture, asking: Listener, given: list[str]
) -> None:
    """S-54."""
    assert await ask(step, asking, *given) == "proxy.authentication"
    assert step.codes == ["proxy.authentication"]
    assert step.arrivals == []


async def test_guessing_is_slowed_down(step: IngressFixture, asking: Listener) -> None:
    """S-54: after some wrong ones not even the right one is looked at, until a moment has passed."""
    assert [await ask(step, asking, WRONG) for _ in range(3)] == ["proxy.authentication"] * 3
    answer = await step.ask(connect(f"{API}:443", f"Proxy-Authorization: {WRONG}"), listener=asking)
    assert (status(answer), code(answer)) == (429, "limit.requests")
    assert b"\r\nretry-after: 10\r\n" in answer
    assert await ask(step, asking, RIGHT) == "limit.requests"
    step.house.clock.seconds += 10
    assert await ask(step, asking, RIGHT) == "carried"
    assert await ask(step, asking, WRONG) == "proxy.authentication"
    assert await ask(step, asking, RIGHT) == "limit.requests"


async def test_asking_and_right_answers_are_no_guesses(step: IngressFixture, asking: Listener) -> None:
    for _ in range(10):
        assert await ask(step, asking) == "proxy.authentication"
        assert await ask(step, asking, RIGHT) == "carried"


async def test_patience_is_counted_by_listener(step: IngressFixture, asking: Listener) -> None:
    for _ in range(4):
        await ask(step, asking, WRONG)
    other = step.listener(authentication="password", password=password_digest("hunter2"))
    assert await ask(step, other, RIGHT) == "carried"


async def test_nothing_is_told_about_the_rules_without_the_password(
    step: IngressFixture, asking: Listener
) -> None:
    for target in ("api.example.com:443", "evil.example:443", "a..b:443"):
        assert code(await step.ask(connect(target), listener=asking)) == "proxy.authentication"
