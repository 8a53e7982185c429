"""Whose socket is at the other end, asked of the kernel in both ways it can be asked."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from egress.proxy.ingress import peer_uid
from egress.proxy.ingress.peer_uid import Address, owner_of


@dataclass
class Connected:
    client: socket.socket
    server: socket.socket

    @property
    def there(self) -> Address:
        host, port = self.server.getpeername()[:2]
        return host, port

    @property
    def here(self) -> Address:
        host, port = self.server.getsockname()[:2]
        return host, port


@pytest.fixture(name="connected", params=["127.0.0.1", "::1", "mapped"])
def a_connection(request: pytest.FixtureRequest) -> Iterator[Connected]:
    host = "127.0.0.1" if request.param == "mapped" else request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        client = socket.socket(socket.AF_INET if request.param == "127.0.0.1" else socket.AF_INET6)
        client.connect(("::ffff:127.0.0.1" if request.param == "mapped" else host, port))
        server, _ = listener.accept()
        with client, server:
            yield Connected(client, server)


def by_netlink(there: Address, here: Address) -> int | None:
    return owner_of(there, here)


def by_table(there: Address, here: Address) -> int | None:
    return peer_uid._find_in_tables(peer_uid._plain(there), peer_uid._plain(here))


BOTH = pytest.mark.parametrize("ask", [by_netlink, by_table])
Ask = Callable[[Address, Address], int | None]


@BOTH
def test_finds_the_owner_of_an_open_connection(connected: Connected, ask: Ask) -> None:
    assert ask(connected.there, connected.here) == os.geteuid()


@BOTH
def test_finds_the_owner_where_the_client_has_ended_its_side(connected: Connected, ask: Ask) -> None:
    """As `nc` does when its input ends."""
    connected.client.shutdown(socket.SHUT_WR)
    assert ask(connected.there, connected.here) == os.geteuid()


@BOTH
def test_a_closed_socket_has_no_owner(connected: Connected, ask: Ask) -> None:
    """What is left of it in the kernel shows uid 0, and is not root's."""
    there, here = connected.there, connected.here
    connected.client.close()
    assert ask(there, here) is None
    connected.server.close()
    assert ask(there, here) is None


@BOTH
def test_a_connection_that_is_none_has_no_owner(connected: Connected, ask: Ask) -> None:
    """Not even where one of the addresses is right: the kernel then offers the socket that listens."""
    (host, port), here = connected.there, connected.here
    assert ask((host, port ^ 1), here) is None
    assert ask(here, connected.there) is not None
    assert ask(here, (host, 1)) is None


@pytest.mark.parametrize("text", ["", "not an address", "1.2.3", "\x00"])
def test_an_address_that_is_none_has_no_owner(text: str) -> None:
    assert owner_of((text, 1), ("127.0.0.1", 2)) is None


def test_the_table_is_read_where_the_kernel_cannot_be_asked(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(peer_uid, "_ask_kernel", refuse)
    assert owner_of(connected.there, connected.here) == os.geteuid()


def test_the_table_is_not_read_where_the_kernel_can_be_asked(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be long, and a client that is gone already would make us read it."""
    there, here = connected.there, connected.here
    connected.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connected.client.close()
    monkeypatch.setattr(peer_uid, "_find_in_tables", lambda *_: pytest.fail("the table was read"))
    assert owner_of(there, here) is None


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0
   1: 0100007F:1F90 0100007F:0050 {state} 00000000:00000000 00:00000000 00000000  1234        0 {inode} 1 0
"""


@pytest.mark.parametrize(
    ("state", "inode", "owner"),
    [("01", "77", 1234), ("08", "77", 1234), ("01", "0", None), ("06", "0", None), ("0A", "77", None)],
)
def test_only_a_held_connection_in_the_table_counts(state: str, inode: str, owner: int | None) -> None:
    lines = TABLE.format(state=state, inode=inode).splitlines()
    here = (socket.inet_aton("127.0.0.1"), 0x50)
    assert peer_uid.find_in_table(lines, (socket.inet_aton("127.0.0.1"), 0x1F90), here) == owner
    assert peer_uid.find_in_table(lines, (socket.inet_aton("127.0.0.2"), 0x1F90), here) is None
