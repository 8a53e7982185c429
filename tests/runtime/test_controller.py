"""The keeper of a door believes nothing: what comes back is exactly what was asked for, or nothing."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from egress.runtime.door import controller as module
from egress.runtime.door.controller import DoorController, default_ports
from egress.runtime.door.socket_opener import serve
from egress.runtime.errors import DoorError, PortClosedError

Answer = Callable[[socket.socket, bytes], None]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Paths of sockets may not be long.
    with tempfile.TemporaryDirectory(prefix="door-") as found:
        yield Path(found)


@pytest.fixture
def keeper(folder: Path) -> Iterator[DoorController]:
    with DoorController(folder, "127.0.0.7") as keeper:
        yield keeper


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.7", 0))
        return int(sock.getsockname()[1])


def opened(keeper: DoorController, folder: Path) -> threading.Thread:
    """The real program, in a thread."""
    thread = threading.Thread(target=serve, args=(str(folder / module.SOCKET_NAME),), daemon=True)
    thread.start()
    keeper.wait(thread.is_alive)
    return thread


def answering(keeper: DoorController, folder: Path, answer: Answer) -> None:
    """A door that was taken over."""

    def run() -> None:
        with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
            sock.connect(str(folder / module.SOCKET_NAME))
            while line := sock.recv(256):
                answer(sock, line)

    threading.Thread(target=run, daemon=True).start()
    keeper.wait(lambda: True)


def test_what_is_asked_for_is_opened_once_and_kept(keeper: DoorController, folder: Path) -> None:
    opened(keeper, folder)
    tcp, udp = free_port(), free_port(socket.SOCK_DGRAM)
    first = keeper.open((("transparent", tcp), ("dns-udp", udp)))
    assert [(item.kind, item.port) for item in first] == [("transparent", tcp), ("dns-udp", udp)]
    assert keeper.open((("transparent", tcp),)) == ()
    assert keeper.listeners == first
    with socket.create_connection(("127.0.0.7", tcp)), first[0].sock.accept()[0]:
        pass
    with socket.create_connection(("127.0.0.7", tcp)) as other, other:
        pass


def test_no_program_inherits_what_came(keeper: DoorController, folder: Path) -> None:
    """A child of the proxy that holds a listener would keep the network of a sandbox open."""
    opened(keeper, folder)
    (first,) = keeper.open((("transparent", free_port()),))
    assert not first.sock.get_inheritable()


def test_a_connection_into_the_network_is_passed_out(keeper: DoorController, folder: Path) -> None:
    opened(keeper, folder)
    with socket.create_server(("127.0.0.7", 0)) as server:
        with keeper.dial("127.0.0.7", server.getsockname()[1]) as sock:
            peer, _ = server.accept()
            with peer:
                sock.sendall(b"hello")
                assert peer.recv(9) == b"hello"
        port = server.getsockname()[1]
    with pytest.raises(PortClosedError, match=str(port)):
        keeper.dial("127.0.0.7", port)
    with pytest.raises(DoorError, match="did not open"):
        keeper.dial("no address", port)


def test_a_port_that_is_taken_is_said(keeper: DoorController, folder: Path) -> None:
    opened(keeper, folder)
    with socket.create_server(("127.0.0.7", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DoorError, match=f"127.0.0.7 {port}"):
            keeper.open((("proxy", port),))
    # It can still be asked.
    assert keeper.open((("proxy", free_port()),))


def test_the_door_ends_with_its_keeper(keeper: DoorController, folder: Path) -> None:
    thread = opened(keeper, folder)
    held = keeper.open((("proxy", free_port()),))
    keeper.close()
    thread.join(30)
    assert not thread.is_alive()
    assert held[0].sock.fileno() == -1
    assert keeper.listeners == ()


def test_whether_it_is_there_is_seen_at_once(keeper: DoorController, folder: Path) -> None:
    looks = [keeper.is_connected]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(folder / module.SOCKET_NAME))
        keeper.wait(lambda: True)
        looks.append(keeper.is_connected)
    looks.append(keeper.is_connected)
    assert looks == [False, True, False]


def test_a_door_that_never_comes_is_noticed(keeper: DoorController) -> None:
    with pytest.raises(DoorError, match="ended during its start"):
        keeper.wait(lambda: False)
    with pytest.raises(DoorError, match="not connected yet"):
        keeper.open((("proxy", 3128),))


def test_a_door_that_is_gone_is_noticed(keeper: DoorController, folder: Path) -> None:
    answering(keeper, folder, lambda sock, _: sock.close())
    with pytest.raises(DoorError):
        keeper.open((("proxy", free_port()),))


def sockets_of_no_use() -> list[Callable[[], list[socket.socket]]]:
    def bound(kind: int, address: tuple[str, int] = ("127.0.0.7", 0)) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        sock.bind(address)
        return sock

    def listening(address: tuple[str, int]) -> socket.socket:
        return socket.create_server(address)

    return [
        lambda: [bound(socket.SOCK_DGRAM)],
        lambda: [bound(socket.SOCK_STREAM)],
        lambda: [listening(("127.0.0.7", 0))],  # another port
        lambda: [listening(("0.0.0.0", 0))],
        lambda: list(socket.socketpair()),
        lambda: [socket.socket(socket.AF_UNIX)],
        lambda: [socket.socket(socket.AF_INET6, socket.SOCK_STREAM)],
        lambda: [listening(("127.0.0.7", 0)), listening(("127.0.0.7", 0))],
        list,
    ]


@pytest.mark.parametrize("number", range(len(sockets_of_no_use())))
def test_another_socket_than_was_asked_for_is_refused_and_closed(
    keeper: DoorController, folder: Path, number: int
) -> None:
    def answer(sock: socket.socket, _: bytes) -> None:
        passed = sockets_of_no_use()[number]()
        socket.send_fds(sock, [b"ok\n"], [each.fileno() for each in passed])
        for each in passed:
            each.close()

    answering(keeper, folder, answer)
    with pytest.raises(DoorError):
        keeper.open((("proxy", free_port()),))
    assert keeper.listeners == ()


@pytest.mark.parametrize("answer", [b"no\n", b"ok", b"ok\nok\n", b"\xff\n", b"x" * 300])
def test_another_answer_than_yes_is_no(keeper: DoorController, folder: Path, answer: bytes) -> None:
    answering(keeper, folder, lambda sock, _: sock.sendall(answer))
    with pytest.raises(DoorError, match="did not open"):
        keeper.open((("proxy", free_port()),))


def test_a_file_is_no_socket(keeper: DoorController, folder: Path) -> None:
    def answer(sock: socket.socket, _: bytes) -> None:
        file = os.open(folder, os.O_RDONLY)
        socket.send_fds(sock, [b"ok\n"], [file])
        os.close(file)

    answering(keeper, folder, answer)
    with pytest.raises(DoorError):
        keeper.open((("proxy", free_port()),))


def test_the_doors_user_can_find_the_socket_and_nothing_else(keeper: DoorController, folder: Path) -> None:
    found = (folder / module.SOCKET_NAME).stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert found.st_mode & stat.S_IWOTH


def test_a_folder_that_is_too_deep_or_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DoorError, match="too long"):
        DoorController(tmp_path / ("x" * 120), "127.0.0.7")
    with pytest.raises(DoorError, match="cannot create"):
        DoorController(Path("/nowhere/at/all"), "127.0.0.7")


def test_every_port_is_opened_once() -> None:
    assert default_ports() == (
        ("proxy", 3128), ("transparent", 80), ("transparent", 443), ("dns-udp", 53), ("dns-tcp", 53)
    )  # fmt: skip
    more = default_ports((443, 8443, 53, 3128, 8443))
    assert [port for kind, port in more if kind == "transparent"] == [80, 443, 8443]
