"""The metrics over TCP: one path, one method, strictly read, and nothing for a sandbox."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from egress.errors import UnreadableError
from egress.proxy.control import metrics_listener
from egress.proxy.control.metrics_guard import (
    MetricsGuard,
    SandboxPlace,
    ScrapeStanding,
    namespace_of,
    place_of,
    plain_address,
)
from egress.proxy.control.metrics_listener import MetricsListener
from egress.proxy.ingress.listener import Listener, listen, password_digest
from egress.proxy.setting_values import ListenAddress

TOKEN = "a-token-of-the-operator"
GET = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n"
ANY_PORT = ListenAddress("127.0.0.1", 0)
LOOPBACK = plain_address("127.0.0.1")
SANDBOX = SandboxPlace("owner-uid", LOOPBACK, os.geteuid())
TEXT = "# TYPE egress_ready gauge\negress_ready 1\n"


class Scraped:
    """A listener, and what it was asked to render."""

    def __init__(self, *places: SandboxPlace, token: str = "") -> None:
        digest = password_digest(token) if token else b""
        self.now = 100.0
        self.rendered = 0
        self.listener = MetricsListener(
            ANY_PORT, MetricsGuard(lambda: places, digest), self.render, lambda: self.now
        )

    def render(self) -> str:
        self.rendered += 1
        return TEXT

    async def ask(self, data: bytes, *, ends: bool = False) -> bytes:
        """Say something, and read all that comes back."""
        reader, writer = await asyncio.open_connection(self.listener.at.host, self.listener.at.port)
        try:
            writer.write(data)
            if ends:
                writer.write_eof()
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def scraped(*places: SandboxPlace, token: str = "") -> AsyncIterator[Scraped]:
    made = Scraped(*places, token=token)
    made.listener.open()
    try:
        yield made
    finally:
        await made.listener.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def with_field(field: str) -> bytes:
    return GET.replace(b"\r\n\r\n", f"\r\n{field}\r\n\r\n".encode())


async def test_a_scraper_reads_metrics_as_it_expects_them() -> None:
    async with scraped() as here:
        answer = await here.ask(GET)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4")
    assert b"connection: close" in head
    (family,) = text_string_to_metric_families(body.decode())
    assert [(each.name, each.value) for each in family.samples] == [("egress_ready", 1)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (GET.replace(b"/metrics", b"/"), 404),
        (GET.replace(b"/metrics", b"/status"), 404),
        (GET.replace(b"/metrics", b"/metrics/"), 404),
        (GET.replace(b"/metrics", b"/metrics?x=1"), 404),
        (GET.replace(b"/metrics", b"//metrics"), 404),
        (GET.replace(b"/metrics", b"/%6detrics"), 404),
        (GET.replace(b"GET", b"HEAD"), 405),
        (GET.replace(b"GET", b"POST"), 405),
        (GET.replace(b"/metrics", b"/kill").replace(b"GET", b"POST"), 404),
        (GET.replace(b"/metrics", b"http://x/metrics"), 400),
        (GET.replace(b"GET /metrics", b"CONNECT x:443"), 400),
        (GET.replace(b"GET /metrics", b"OPTIONS *"), 400),
        (with_field("Content-Length: 5"), 400),
        (with_field("Transfer-Encoding: chunked"), 400),
        (with_field("Content-Length: 0"), 200),
        (with_field("Origin: https://evil.example"), 403),
        (with_field("Sec-Fetch-Site: cross-site"), 403),
        (with_field("A: " + "x" * 10_000), 400),
        (GET.replace(b"\r\n", b"\n"), 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
        (b"", 400),
        (GET[:-2], 400),
        (GET + GET, 200),
    ],
)
async def test_nothing_but_a_plain_get_of_its_path_is_served(data: bytes, expected: int) -> None:
    async with scraped() as here:
        answer = await here.ask(data, ends=True)
        assert status(answer) == expected
        assert (TEXT.encode() in answer) is (expected == 200)
        assert answer.count(b"HTTP/1.1 ") == 1, "one answer a connection"
        assert status(await here.ask(GET)) == 200, "the next one is served"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1:9464", 200), ("localhost:9464", 200), ("[::1]:9464", 200), ("evil.example:9464", 403)],
)
async def test_a_name_that_was_made_to_lead_here_is_refused(host: str, expected: int) -> None:
    """A browser sends no field of its own to what it takes for the site of its page."""
    async with scraped() as here:
        assert status(await here.ask(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())) == expected
        assert here.rendered == (expected == 200)
    asked = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    async with scraped(token=TOKEN) as here:
        assert status(await here.ask(asked)) == 200


async def test_without_the_token_there_is_nothing_and_not_even_a_hint_of_paths() -> None:
    async with scraped(token=TOKEN) as here:
        for field in ("X: y", "Authorization: Bearer no", f"Authorization: Basic {TOKEN}"):
            for path in (b"/metrics", b"/status", b"/"):
                answer = await here.ask(with_field(field).replace(b"/metrics", path))
                assert status(answer) == 401
                assert b"www-authenticate: Bearer" in answer
        assert here.rendered == 0
        assert status(await here.ask(with_field(f"Authorization: Bearer {TOKEN}"))) == 200


async def test_a_sandbox_gets_not_a_byte() -> None:
    """This user is the sandbox of the listener; that others are served is shown below."""
    async with scraped(SANDBOX) as here:
        assert await here.ask(GET) == b""
        assert here.rendered == 0
    async with scraped(SANDBOX, token=TOKEN) as here:
        assert status(await here.ask(GET)) == 401
        assert status(await here.ask(with_field(f"Authorization: Bearer {TOKEN}"))) == 200


async def test_however_often_it_is_asked_the_text_is_made_once_a_second() -> None:
    async with scraped() as here:
        for _ in range(20):
            assert status(await here.ask(GET)) == 200
        assert here.rendered == 1
        here.now += 1
        await here.ask(GET)
        assert here.rendered == 2


async def test_connections_are_few_and_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_listener, "_TIMEOUT", 0.3)
    async with scraped() as here:
        silent = [
            await asyncio.open_connection(here.listener.at.host, here.listener.at.port)
            for _ in range(metrics_listener._MAX_CONVERSATIONS)
        ]
        assert await here.ask(GET) == b"", "one more is closed unread"
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        assert status(await here.ask(GET)) == 200


async def test_refusals_are_one_line_a_second() -> None:
    """A sandbox can be refused as often as it likes."""
    async with scraped(SANDBOX) as here:
        with capture_logs() as lines:
            for _ in range(3):
                assert await here.ask(GET) == b""
            here.now += 1
            assert await here.ask(GET) == b""
        assert [(line["event"], line["count"]) for line in lines] == [
            ("metrics.refused", 1),
            ("metrics.refused", 3),
        ]


async def test_one_connection_is_taken_in_a_round_of_the_loop() -> None:
    """Whoever connects here is charged no turn, and judging a peer takes a while."""
    async with scraped(SANDBOX) as here:
        judged = 0
        inner = here.listener._guard.standing

        def standing(sock: socket.socket) -> ScrapeStanding:
            nonlocal judged
            judged += 1
            return inner(sock)

        here.listener._guard.standing = standing  # type: ignore[method-assign]
        flood = [socket.create_connection((here.listener.at.host, here.listener.at.port)) for _ in range(20)]
        seen = []
        while judged < len(flood):
            before = judged
            await asyncio.sleep(0)
            seen.append(judged - before)
        for sock in flood:
            sock.close()
        assert max(seen) == 1


async def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as sock:
        at = ListenAddress("127.0.0.1", sock.getsockname()[1])
        made = MetricsListener(at, MetricsGuard(lambda: ()), lambda: TEXT, lambda: 0.0)
        with pytest.raises(
            UnreadableError, match=f"{at}: address already in use, by .*{os.getpid()}"
        ) as caught:
            made.open()
        assert "--metrics" in caught.value.hint
        await made.close()


async def test_after_the_close_nobody_is_answered() -> None:
    async with scraped() as here:
        at = here.listener.at
    with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
        sock.connect((at.host, at.port))


# The guard, with real sockets ----------------------------------------------------------------------


@pytest.mark.parametrize("is_sandbox", [True, False])
def test_the_user_of_a_listener_is_a_sandbox_and_others_are_not(is_sandbox: bool) -> None:
    owner = os.geteuid() if is_sandbox else os.geteuid() + 1
    guard = MetricsGuard(lambda: [SandboxPlace("owner-uid", LOOPBACK, owner)])
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        sock.settimeout(None)
        server, _ = sock.accept()
        with server:
            expected = ScrapeStanding.REFUSED if is_sandbox else ScrapeStanding.WELCOME
            assert guard.standing(server) is expected


def test_a_place_says_what_its_listener_says() -> None:
    with listen("127.0.0.1", 0) as sock:
        found = place_of(Listener("x", "proxy", "box", sock, "owner-uid"))
        assert (found.authentication, found.address) == ("owner-uid", LOOPBACK)
        assert (found.owner, found.namespace) == (os.geteuid(), namespace_of(sock))
    assert place_of(Listener("x", "proxy", "box", sock)).address is None, "it is closed"
