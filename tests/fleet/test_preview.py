"""Ports that are shown: who reaches them, and that nobody does any more when they are not."""

from __future__ import annotations

import http.client
import http.server
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from egress.fleet import Preview, preview, preview_exchange
from egress.fleet.errors import PreviewError
from egress.fleet.preview import Previews
from egress.runtime.errors import SandboxNotFoundError, SpecError
from egress.wrong_tokens import MAX_WRONG_TOKENS
from tests.fleet.memory_fleet import MemoryFleet, spec


class Site(http.server.BaseHTTPRequestHandler):
    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        body = f"hello at {self.path}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Wait for a body that does not come."""
        self.rfile.read(10)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    """A sandbox, whose port 8000 is that of a site."""
    Site.cookies.clear()
    estate = MemoryFleet()
    estate.fleet.create(spec())
    estate.fleet.start("one")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        estate.runtime.ports["one", 8000] = ("127.0.0.1", server.server_port)
        yield estate
        server.shutdown()
        thread.join()
    estate.fleet.close()


@contextmanager
def asked(
    url: str, cookie: str = "", host: str = "", origin: str = "", accept: str = "", token: str = ""
) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=20)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.putrequest("GET", target, skip_host=True)
    connection.putheader("Host", host or parts.netloc)
    given = (("Cookie", cookie), ("Origin", origin), ("Accept", accept), ("Egress-Preview-Token", token))
    for name, value in given:
        if value:
            connection.putheader(name, value)
    connection.endheaders()
    try:
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def opened(url: str) -> tuple[str, str]:
    """What a browser does with the address first: returns where it is sent, and its cookie."""
    with asked(url, accept="text/html,*/*") as answer:
        assert answer.status == 303
        assert answer.getheader("cache-control") == "no-store"
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        return answer.getheader("location") or "", cookie


def test_a_browser_gets_from_the_address_to_the_page(estate: MemoryFleet) -> None:
    url = estate.fleet.expose("one", 8000).url
    assert re.fullmatch(r"8000-one-[a-z2-7]{10}\.localhost", urlsplit(url).hostname or "")
    location, cookie = opened(url)
    with asked(location, cookie + "; own=1") as answer:
        assert (answer.status, answer.read()) == (200, b"hello at /")
    assert Site.cookies == ["own=1"]


def test_it_listens_on_the_loopback_alone(estate: MemoryFleet) -> None:
    estate.fleet.expose("one", 8000)
    listener = estate.fleet.exposed._listener
    assert listener is not None
    assert listener.address[0] == "127.0.0.1"


def test_nobody_else_gets_its_port_on_the_other_loopback(estate: MemoryFleet) -> None:
    """S-78: a browser asks `::1` first, and would hand the token to whoever listens there."""
    port = urlsplit(estate.fleet.expose("one", 8080).url).port
    with socket.socket(socket.AF_INET6) as other:
        try:
            other.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    with socket.socket(socket.AF_INET6) as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("::1", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("::1", port or 0))


def test_without_the_token_nothing_is_dialled(estate: MemoryFleet) -> None:
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    for given, host, status in (("", "", 403), ("egress-preview=x", "", 403), (cookie, "evil.example", 421)):
        with asked(location, given, host) as answer:
            assert answer.status == status
    assert Site.cookies == []


def test_a_page_of_another_port_of_the_same_name_gets_nothing(estate: MemoryFleet) -> None:
    """S-78: to a cookie all ports of a name are one, and anybody on this machine can listen at another."""
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    own = location.rstrip("/")
    with asked(location, cookie, origin=own) as answer:
        assert answer.status == 200
    with asked(location, cookie, origin=own.rpartition(":")[0] + ":6000") as answer:
        assert answer.status == 403
    assert len(Site.cookies) == 1


def test_the_cookie_of_one_port_opens_no_other(estate: MemoryFleet) -> None:
    estate.fleet.create(spec("two"))
    estate.runtime.ports["two", 8000] = estate.runtime.ports["one", 8000]
    _, cookie = opened(estate.fleet.expose("one", 8000).url)
    location, _ = opened(estate.fleet.expose("two", 8000).url)
    with asked(location, cookie) as answer:
        assert answer.status == 403


def test_the_same_port_keeps_its_address_until_it_is_shown_no_longer(estate: MemoryFleet) -> None:
    url = estate.fleet.expose("one", 8000).url
    assert estate.fleet.expose("one", 8000).url == url
    location, cookie = opened(url)
    estate.fleet.unexpose("one", 8000)
    estate.fleet.unexpose("one", 8000)
    with asked(location, cookie) as answer:
        assert answer.status == 421
    assert urlsplit(estate.fleet.expose("one", 8000).url).netloc != urlsplit(url).netloc
    with asked(location, cookie) as answer:
        assert answer.status == 421


def test_it_goes_with_its_sandbox(estate: MemoryFleet) -> None:
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    estate.fleet.remove("one")
    assert estate.fleet.previews() == ()
    estate.fleet.create(spec())
    with asked(location, cookie) as answer:
        assert answer.status == 421


def test_no_origin_outlives_its_sandbox(estate: MemoryFleet) -> None:
    """What a browser kept of the first one, a script that never grows old, is that of another origin."""
    first, _ = opened(estate.fleet.expose("one", 8000).url)
    site = estate.runtime.ports["one", 8000]
    estate.fleet.remove("one")
    estate.fleet.create(spec())
    estate.fleet.start("one")
    estate.runtime.ports["one", 8000] = site
    second, cookie = opened(estate.fleet.expose("one", 8000).url)
    assert urlsplit(second).hostname != urlsplit(first).hostname
    assert urlsplit(second).port == urlsplit(first).port
    with asked(second, cookie) as answer:
        assert answer.status == 200
    with asked(first, cookie) as answer:
        assert answer.status == 421


def test_who_looks_at_a_port_keeps_the_sandbox(estate: MemoryFleet) -> None:
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    estate.clock.now += 100
    with asked(location, cookie) as answer:
        answer.read()
    assert estate.fleet.status("one").idle == 0


def test_only_ports_of_sandboxes_that_are_there_are_shown(estate: MemoryFleet) -> None:
    with pytest.raises(SandboxNotFoundError):
        estate.fleet.expose("nobody", 8000)
    with pytest.raises(SpecError):
        estate.fleet.expose("one", 70_000)


def test_what_looks_at_a_port_ends_with_its_showing(estate: MemoryFleet) -> None:
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    connection = begun(location, cookie)
    while not any(carry.shown for carry in list(estate.fleet.exposed._carries)):
        time.sleep(0.01)
    estate.fleet.unexpose("one", 8000)
    assert connection.sock.recv(100) == b""
    connection.close()


def test_who_says_nothing_keeps_no_browser_away(estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of the machine can connect; the token is asked for only then."""
    monkeypatch.setattr(preview, "_MAX_CONNECTIONS", 4)
    url = estate.fleet.expose("one", 8000).url
    address = ("127.0.0.1", urlsplit(url).port or 80)
    silent = [socket.create_connection(address, timeout=20) for _ in range(8)]
    _, cookie = opened(url)
    with asked(url.partition("?")[0], cookie) as response:
        assert response.status == 200
    assert silent[0].recv(1) == b""
    for each in silent:
        each.close()


@pytest.mark.parametrize("limit", ["_MAX_CONNECTIONS_PER_PORT", "_MAX_CONNECTIONS_PER_SANDBOX"])
def test_one_sandbox_does_not_take_the_places_of_all(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A page that it shows can begin as many connections as it likes, and a sandbox shows several."""
    monkeypatch.setattr(preview, "_MAX_CONNECTIONS", 4)
    monkeypatch.setattr(preview, limit, 2)
    estate.fleet.create(spec("two"))
    estate.fleet.start("two")
    ports = estate.runtime.ports
    ports["two", 8000] = ports["one", 8001] = ports["one", 8000]
    location, cookie = opened(estate.fleet.expose("one", 8000).url)
    second = (location, cookie)
    if limit == "_MAX_CONNECTIONS_PER_SANDBOX":
        second = opened(estate.fleet.expose("one", 8001).url)
    waiting = [begun(*each) for each in ((location, cookie), second)]
    while sum(carry.shown is not None for carry in list(estate.fleet.exposed._carries)) < 2:
        time.sleep(0.01)
    with asked(location, cookie) as response:
        assert response.status == 429
    other, key = opened(estate.fleet.expose("two", 8000).url)
    with asked(other, key) as response:
        assert response.status == 200
    for each in waiting:
        each.close()


def begun(url: str, cookie: str) -> http.client.HTTPConnection:
    """A request whose body does not come."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=20)
    connection.putrequest("POST", "/", skip_host=True)
    for name, value in (("Host", parts.netloc), ("Cookie", cookie), ("Content-Length", "10")):
        connection.putheader(name, value)
    connection.endheaders()
    return connection


# Programs that are no browsers --------------------------------------------------------------------


def test_a_program_shows_the_token_in_a_header(estate: MemoryFleet) -> None:
    shown = estate.fleet.expose("one", 8000)
    with asked(f"{shown.origin}/a", token=shown.token) as answer:
        assert (answer.status, answer.read()) == (200, b"hello at /a")
    with asked(shown.url) as answer:
        assert (answer.status, answer.read()) == (200, b"hello at /")
    with asked(f"{shown.origin}/a", token=shown.token, origin="http://evil.example") as answer:
        assert answer.status == 403


def test_guesses_are_bounded_and_hold_up_nobody_with_the_token(estate: MemoryFleet) -> None:
    shown, other = estate.fleet.expose("one", 8000), estate.fleet.expose("one", 8001)
    estate.runtime.ports["one", 8001] = estate.runtime.ports["one", 8000]

    def guessed(at: Preview, token: str = "x") -> int:
        with asked(f"{at.origin}/", token=token) as answer:
            return answer.status

    assert [guessed(shown) for _ in range(MAX_WRONG_TOKENS + 2)] == [403] * MAX_WRONG_TOKENS + [429] * 2
    assert guessed(shown, shown.token) == 200
    assert guessed(other) == 403
    with asked(f"{shown.origin}/") as answer:
        assert answer.status == 403
    estate.clock.now += 1
    assert guessed(shown) == 403


# Time ---------------------------------------------------------------------------------------------


def test_a_preview_ends_when_its_time_is_over(estate: MemoryFleet) -> None:
    shown = estate.fleet.expose("one", 8000, 60.0)
    assert shown.left == 60
    location, cookie = opened(shown.url)
    estate.clock.now += 59
    assert [each.left for each in estate.fleet.previews()] == [1]
    with asked(location, cookie) as answer:
        assert answer.status == 200
    estate.clock.now += 1
    assert estate.fleet.previews() == ()
    # Nobody has to look after it for that.
    with asked(location, cookie) as answer:
        assert answer.status == 421
    again = estate.fleet.expose("one", 8000)
    assert again.origin != shown.origin
    assert again.left is None


def test_the_time_of_a_preview_is_replaced_only_if_another_is_given(estate: MemoryFleet) -> None:
    shown = estate.fleet.expose("one", 8000, 60.0)
    assert estate.fleet.expose("one", 8000) == shown
    longer = estate.fleet.expose("one", 8000, 600.0)
    assert (longer.url, longer.left) == (shown.url, 600)
    estate.clock.now += 590
    assert estate.fleet.expose("one", 8000).left == 10


def test_connections_end_with_the_time_of_their_preview(estate: MemoryFleet) -> None:
    shown, other = estate.fleet.expose("one", 8000, 60.0), estate.fleet.expose("one", 8001)
    estate.runtime.ports["one", 8001] = estate.runtime.ports["one", 8000]
    ended, kept = (begun(each.origin, f"egress-preview={each.token}") for each in (shown, other))
    while sum(carry.shown is not None for carry in list(estate.fleet.exposed._carries)) < 2:
        time.sleep(0.01)
    estate.fleet.exposed.end_expired()
    estate.clock.now += 60
    estate.fleet.exposed.end_expired()
    assert ended.sock.recv(100) == b""
    assert [each.port for each in estate.fleet.previews()] == [8001]
    kept.send(b"the body.\n")
    ended.close()
    kept.close()


@pytest.mark.parametrize("expires", [0, -1, 1e10, float("nan"), float("inf")])
def test_a_time_is_one(estate: MemoryFleet, expires: float) -> None:
    with pytest.raises(SpecError):
        estate.fleet.expose("one", 8000, expires)
    assert estate.fleet.previews() == ()


def test_a_sandbox_has_so_many_previews(estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "_MAX_PREVIEWS", 2)
    estate.fleet.create(spec("two"))
    first = estate.fleet.expose("one", 8000, 60.0)
    estate.fleet.expose("one", 8001)
    with pytest.raises(PreviewError, match="has 2 previews"):
        estate.fleet.expose("one", 8002)
    assert estate.fleet.expose("one", 8000) == first
    estate.fleet.expose("two", 8000)
    estate.clock.now += 60
    estate.fleet.expose("one", 8002)


def test_a_head_that_comes_too_slowly_is_dropped(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_exchange, "_HEAD_TIMEOUT", 0.2)
    url = estate.fleet.expose("one", 8000).url
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 20) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n")
        assert _is_dropped_while_sending(sock, b"x")


def test_a_client_that_never_stops_sending_is_dropped(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = estate.fleet.expose("one", 8000).url
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 20) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\nContent-Length: 1000000000\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 421"
        monkeypatch.setattr(preview_exchange, "_HEAD_TIMEOUT", 0.2)
        assert _is_dropped_while_sending(sock, b"x" * 1000)


def _is_dropped_while_sending(sock: socket.socket, data: bytes) -> bool:
    with suppress(OSError):
        while True:
            sock.sendall(data)
            time.sleep(0.01)
    return True


def test_nothing_is_shown_after_the_end() -> None:
    previews = Previews(lambda _name, _port: pytest.fail("dialled"), lambda _: None)
    previews.expose("one", 80)
    previews.close()
    with pytest.raises(PreviewError):
        previews.expose("one", 80)
    assert previews.all() == ()
