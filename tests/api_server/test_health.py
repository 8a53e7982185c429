"""All probes of a moment share one look at the proxy; `test_rules_calls.py` asks a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from egress.api_server.health import LOOK_SECONDS, HealthLooks, is_proxy_ready
from tests.fleet.memory_fleet import ManualClock
from tests.fleet.test_control_client import answering, http


def test_many_probes_are_one_look() -> None:
    clock, looks = ManualClock(), list[bool]()

    async def look() -> bool:
        await asyncio.sleep(0.01)
        looks.append(True)
        return len(looks) < 2

    async def probe() -> None:
        health = HealthLooks(clock)
        assert await asyncio.gather(*(health.is_ready(look) for _ in range(50))) == [True] * 50
        assert (await health.is_ready(look), len(looks)) == (True, 1)
        clock.now += LOOK_SECONDS
        assert (await health.is_ready(look), len(looks)) == (False, 2)

    asyncio.run(probe())


def test_a_client_that_leaves_does_not_end_the_look_of_others() -> None:
    async def probe() -> bool:
        health, go = HealthLooks(ManualClock()), asyncio.Event()

        async def look() -> bool:
            await go.wait()
            return True

        leaving = asyncio.ensure_future(health.is_ready(look))
        staying = asyncio.ensure_future(health.is_ready(look))
        await asyncio.sleep(0)
        leaving.cancel()
        go.set()
        return await staying

    assert asyncio.run(probe())


def test_only_a_proxy_that_can_serve_is_ready(tmp_path: Path) -> None:
    assert not is_proxy_ready(None)
    assert not is_proxy_ready(tmp_path)
    for status, is_ready in (("200 OK", True), ("503 Service Unavailable", False), ("404 Not Found", False)):
        with answering(http(b"{}", status)) as folder:
            assert is_proxy_ready(folder) is is_ready
