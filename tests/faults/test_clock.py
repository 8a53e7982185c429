"""The time of day jumps under a proxy as a process: by hours, days and years, forth and back.

What is faked is the C library's clock, so OpenSSL believes it too. What measures durations goes on as it is.
Clients here do not look at how long a certificate holds: it is the proxy that is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tests.cli.command import put
from tests.faults.proxy_lab import ALL_RULE, API, OPEN, SECRET, ProxyLab
from tests.proxy.lab.client import Peer, RefusedError

pytestmark = pytest.mark.system("faketime", "faketime")

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, which `ssl` has no name for."""
SOON = timedelta(days=10)
DAY = 86_400
STEPS = (3600, -3600, 40 * DAY, -40 * DAY, 3 * 365 * DAY, -3 * 365 * DAY, 0)


class Faked:
    """What time it is for one proxy."""

    def __init__(self, folder: Path) -> None:
        self._file = put(folder / "offset", "+0\n")
        self.offset = 0

    @property
    def env(self) -> dict[str, str]:
        words = ["faketime", "-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]
        library = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        self.offset = seconds
        put(self._file.with_suffix(".new"), f"{seconds:+d}\n").replace(self._file)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.offset)  # noqa: TID251 - the real one


@contextlib.asynccontextmanager
async def estate_of(folder: Path, allow: str = ALL_RULE) -> AsyncIterator[tuple[ProxyLab, Faked]]:
    faked = Faked(folder)
    async with ProxyLab.of(folder, env=faked.env, allow=allow) as estate:
        for context in estate.trust.values():
            context.verify_flags |= NO_CHECK_TIME
        try:
            yield estate, faked
        finally:
            faked.set(0)
        checked = await asyncio.to_thread(estate.served.egress, "log", "verify")
        assert checked.status == 0, checked


async def ask(estate: ProxyLab, peer: Peer, path: str, name: str = API) -> str:
    """The code of a refusal, or the status."""
    response = await peer.get(path, estate.host(name))
    return response.header("egress-denied") or str(response.status)


async def visit(estate: ProxyLab, path: str, name: str = API) -> str:
    """The same on a connection of its own; empty where no handshake came about."""
    try:
        async with await estate.visit(name) as peer:
            return await ask(estate, peer, path, name)
    except RefusedError as error:
        return error.response.header("egress-denied") or ""
    except OSError:
        return ""


async def test_records_go_on_whatever_time_it_is(tmp_path: Path) -> None:
    async with estate_of(tmp_path) as (estate, faked), await estate.visit() as peer:
        for number, step in enumerate(STEPS):
            faked.set(step)
            assert await ask(estate, peer, f"/small/{number}") == "200"
        lines = await asyncio.to_thread(estate.served.recorded, "exchange", len(STEPS))
        everything = estate.served.records()
        assert [line["seq"] for line in everything] == list(range(1, len(everything) + 1))
        for line, step in zip(lines, STEPS, strict=True):
            written = datetime.fromisoformat(str(line["time"]))
            assert abs(written - datetime.now(UTC) - timedelta(seconds=step)) < timedelta(minutes=5)  # noqa: TID251
            durations = [value for name, value in line.items() if name.endswith("_us")]
            assert all(isinstance(value, int) and 0 <= value < 60_000_000 for value in durations)


async def test_an_authority_that_is_not_valid_signs_nothing(tmp_path: Path) -> None:
    async with estate_of(tmp_path) as (estate, faked):
        for step in (-2 * DAY, 3 * 365 * DAY, -3 * 365 * DAY):
            faked.set(step)
            assert await visit(estate, "/small/x") == ""
        faked.set(0)
        assert await visit(estate, "/small/y") == "200"
        assert list(estate.seen) == ["/small/y"]
        refused = await asyncio.to_thread(estate.served.recorded, "refusal", 3)
        assert [line["code"] for line in refused] == ["tls.failed"] * 3


async def test_a_certificate_holds_at_the_time_that_it_is_shown(tmp_path: Path) -> None:
    async with estate_of(tmp_path) as (estate, faked):
        for step in (0, 20 * DAY, 60 * DAY, 3600, 0):
            faked.set(step)
            async with await estate.visit() as peer:
                shown = x509.load_der_x509_certificate(peer.channel.certificate or b"")
            assert shown.not_valid_before_utc <= faked.now < shown.not_valid_after_utc, step


async def test_an_upstream_whose_certificate_has_ended_is_sent_nothing(tmp_path: Path) -> None:
    async with estate_of(tmp_path) as (estate, faked):
        assert await visit(estate, "/echo/good", OPEN) == "200"
        faked.set(60 * DAY)
        assert await visit(estate, "/echo/late", OPEN) == "upstream.tls"
        faked.set(0)
        assert await visit(estate, "/echo/again", OPEN) == "200"
        assert list(estate.seen) == ["/echo/good", "/echo/again"]


async def test_what_has_expired_is_closed_and_what_is_under_way_is_cut(tmp_path: Path) -> None:
    until = (datetime.now(UTC) + SOON).date()  # noqa: TID251 - a rule of these days
    allow = f'{{id: brief, paths: ["/small/**", "/sse"], expires: {until}}}'
    async with estate_of(tmp_path, allow) as (estate, faked), await estate.visit() as stream:
        target = f"/sse?n=1000000&every=0.01 HTTP/1.1\r\nhost: {estate.host(API)}\r\n\r\n"
        await stream.send(f"GET {target}".encode())
        await stream.channel.until(b"data: 0")
        assert await visit(estate, "/small/now") == "200"
        faked.set(-3600)
        assert await visit(estate, "/small/before") == "200"
        faked.set(40 * DAY)
        assert await visit(estate, "/small/after") == "host.closed"
        await stream.channel.everything()
        lines = await asyncio.to_thread(estate.served.recorded, "exchange", 4)
        assert {str(line["path"]): line["code"] for line in lines}["/sse"] == "access.withdrawn"


@pytest.mark.parametrize("step", [-3600, 20 * DAY])
async def test_a_replaced_secret_is_seen_in_time(tmp_path: Path, step: int) -> None:
    """How long a value holds is no matter of the time of day."""
    async with estate_of(tmp_path) as (estate, faked), await estate.visit() as peer:
        assert await ask(estate, peer, "/small/1") == "200"
        faked.set(step)
        put(tmp_path / "new", "another-sesame-altogether").replace(tmp_path / "secret")
        async with asyncio.timeout(60):
            while await ask(estate, peer, "/small/2") != "401":  # noqa: ASYNC110 - the proxy tells nobody
                await asyncio.sleep(0.1)
        put(tmp_path / "new", SECRET).replace(tmp_path / "secret")
        async with asyncio.timeout(60):
            while await ask(estate, peer, "/small/3") != "200":  # noqa: ASYNC110 - same
                await asyncio.sleep(0.1)
