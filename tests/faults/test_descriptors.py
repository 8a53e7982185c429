"""A proxy that runs out of descriptors: few from the start, or taken away while it works.

It stays, answers what it can, tells why of the rest, and serves as before when there are some again.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from pathlib import Path

import pytest

from egress.errors import CODES
from tests.faults.proxy_lab import API, ProxyLab
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, dial
from tests.proxy.lab.http1 import Response
from tests.proxy.serve_process import until

FEW = 200
CLIENTS = 80
TOO_FEW = {"limit.connections", "upstream.unreachable", "internal"}
"""What a client may be told; the last where not even the addresses of the machine can be asked for."""


async def said(estate: ProxyLab, peer: Peer, path: str) -> str:
    """The code of a refusal, or the status."""
    response = await peer.get(path, estate.host(API))
    return response.header("egress-denied") or str(response.status)


async def ask(estate: ProxyLab, path: str) -> str:
    """The same on a connection of its own; empty where it was closed without a word."""
    try:
        async with await estate.visit() as peer:
            return await said(estate, peer, path)
    except RefusedError as error:
        return code_of(error.response)
    except (OSError, EndedError):
        return ""


def code_of(response: Response) -> str:
    return response.header("egress-denied") or ""


async def is_well_again(estate: ProxyLab) -> None:
    """Accepting pauses for a moment when it has failed."""
    async with asyncio.timeout(60):
        while await ask(estate, "/small/again") != "200":  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.05)


async def all_told(estate: ProxyLab) -> None:
    """Each request that came to the upstream has its line, and the log is whole."""
    wanted = {path for path in estate.seen if not path.endswith(("again", "well"))}

    def told_of() -> Counter[str]:
        lines = estate.served.records("exchange")
        return Counter(str(line["path"]) for line in lines if str(line["path"]) in wanted)

    # Those that were refused have their lines as well, so counting lines is not enough.
    await asyncio.to_thread(until, lambda: told_of().keys() == wanted, "a line of each request")
    told = told_of()
    assert set(told.values()) == {1}
    assert {str(line["code"]) for line in estate.served.records() if "code" in line} <= {
        *CODES,
        "rule.allowed",
        "client.left",
    }
    checked = await asyncio.to_thread(estate.served.egress, "log", "verify")
    assert checked.status == 0, checked


@pytest.mark.system("prlimit", "util-linux")
async def test_few_from_the_start_serve_few_clients_and_their_operator(tmp_path: Path) -> None:
    under = ("prlimit", f"--nofile={FEW}:{FEW}")
    async with ProxyLab.of(tmp_path, under=under) as estate:
        assert estate.served.logged("descriptors.few")
        idle = [await dial(at(estate.served.port)) for _ in range(CLIENTS)]
        # All that there may be are taken; the rest was turned away, and who operates it gets in.
        answered = await ask(estate, "/small/1")
        assert answered == "limit.connections"
        status, told = await estate.ask("GET", "/status")
        assert status == 200
        assert told["ready"]
        for peer in idle:
            await peer.channel.drop()
        await is_well_again(estate)
        answers = Counter(await asyncio.gather(*(ask(estate, f"/small/a{n}") for n in range(CLIENTS))))
        assert answers["200"]
        assert answers.keys() <= {"200", "", *TOO_FEW}
        await is_well_again(estate)
        await all_told(estate)


async def test_none_left_while_it_works(tmp_path: Path) -> None:
    """Not one more: what is open goes on, nothing new comes about, and then all is as before."""
    async with ProxyLab.of(tmp_path) as estate:
        pid = estate.served.process.pid
        async with await estate.visit() as peer:
            assert await said(estate, peer, "/small/before") == "200"
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                # Its upstream connection stands already.
                assert await said(estate, peer, "/small/kept") == "200"
                late = [asyncio.create_task(ask(estate, f"/small/l{n}")) for n in range(8)]
                assert await said(estate, peer, "/small/still") == "200"
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            # They waited in the queue of the listener.
            assert {await each for each in late} <= {"200", "", *TOO_FEW}
            assert await said(estate, peer, "/small/after") == "200"
        await is_well_again(estate)
        await all_told(estate)


async def test_no_new_upstream_connection(tmp_path: Path) -> None:
    """A client that is in gets an answer that says it, and the next one is served."""
    async with ProxyLab.of(tmp_path) as estate:
        pid = estate.served.process.pid
        async with await estate.visit() as peer:
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                assert await said(estate, peer, "/small/none") in TOO_FEW
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            assert await said(estate, peer, "/small/some") == "200"
        await all_told(estate)
