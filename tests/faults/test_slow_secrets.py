"""A source of secrets that is slow, hangs, fails, or changes its mind, while many ask at once.

Each request goes out with one whole value or not at all; the program is not run once for each of them; and
hosts that need no secret are served as if nothing were.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.command import put
from tests.faults.proxy_lab import API, OPEN, SECRET, ProxyLab
from tests.proxy.lab.handlers import echo
from tests.proxy.lab.upstream_request import UpstreamRequest

CLIENTS = 20
EACH = 5
VALUES = ("sesame-number-one-1111", "sesame-number-two-2222")


@contextlib.asynccontextmanager
async def estate_of(folder: Path, body: str, ttl: str = "") -> AsyncIterator[ProxyLab]:
    """A proxy whose secret is printed by a shell script, which also counts how often it runs."""
    program = put(folder / "program", f'#!/bin/sh\necho run >> "{folder}/runs"\n{body}\n')
    program.chmod(0o755)
    async with ProxyLab.of(folder, source=f"command:{program}", ttl=ttl) as estate:
        yield estate


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text(encoding="ascii").splitlines())


async def ask(estate: ProxyLab, name: str, path: str, times: int) -> list[str]:
    """The code of each refusal, or the status, one after the other on one connection."""
    answers = []
    async with await estate.visit(name) as peer:
        for number in range(times):
            response = await peer.get(f"{path}-{number}", estate.host(name))
            answers.append(response.header("egress-denied") or str(response.status))
    return answers


async def crowd(
    estate: ProxyLab, name: str = API, first: str = "/small/c", times: int = EACH
) -> Counter[str]:
    found = await asyncio.gather(*(ask(estate, name, f"{first}{n}", times) for n in range(CLIENTS)))
    return Counter(answer for answers in found for answer in answers)


async def check_log(estate: ProxyLab, answers: Counter[str]) -> None:
    """Each answer has its record, and with the secret went what was answered by the upstream."""
    lines = await asyncio.to_thread(estate.served.recorded, "exchange", 1)
    wanted = sum(answers.values())
    folded = sum(int(str(line["count"])) for line in estate.served.records("folded"))
    while len(lines) + folded < wanted:
        await asyncio.sleep(0.1)
        lines = estate.served.records("exchange")
        folded = sum(int(str(line["count"])) for line in estate.served.records("folded"))
    assert len(lines) + folded == wanted
    assert sum(line["code"] == "rule.allowed" for line in lines) == answers["200"]


async def test_a_slow_one_is_run_once_for_all_who_wait(tmp_path: Path) -> None:
    async with estate_of(tmp_path, f"sleep 1; echo {SECRET}") as estate:
        answers = await crowd(estate)
        assert answers == {"200": CLIENTS * EACH}
        # At the start, and for whoever came before that was done: still the same run.
        assert runs(tmp_path) == 1
        await check_log(estate, answers)


async def test_one_that_hangs_denies_after_its_time_and_nobody_else_waits(tmp_path: Path) -> None:
    async with estate_of(tmp_path, "sleep 1000") as estate:
        waiting = asyncio.create_task(crowd(estate, times=1))
        others = await crowd(estate, OPEN, "/echo/c")
        assert others == {"200": CLIENTS * EACH}
        assert not waiting.done()
        answers = await waiting
        assert answers == {"secret.unavailable": CLIENTS}
        assert runs(tmp_path) == 1
        assert not [path for path in estate.seen if path.startswith("/small")]


async def test_one_that_fails_denies_at_once_and_is_left_alone_for_a_while(tmp_path: Path) -> None:
    async with estate_of(tmp_path, f"echo {SECRET}; exit 3") as estate:
        answers = await crowd(estate)
        assert answers == {"secret.unavailable": CLIENTS * EACH}
        assert not estate.seen
        # Not once for each of a hundred requests.
        assert runs(tmp_path) <= 10
        put(tmp_path / "program.new", f"#!/bin/sh\necho {SECRET}\n").chmod(0o755)
        (tmp_path / "program.new").replace(tmp_path / "program")
        async with asyncio.timeout(60):
            while await ask(estate, API, "/small/again", 1) != ["200"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_one_that_flips_gives_each_request_one_whole_value(tmp_path: Path) -> None:
    """With another value each time, at the shortest time to hold one."""
    one, two = VALUES
    body = f'test $(($(wc -l < "{tmp_path}/runs") % 2)) = 0 && echo {one} || echo {two}'
    got: list[str] = []

    async def note(visit: UpstreamRequest) -> None:
        got.append(visit.authorization)
        await echo(visit)

    async with estate_of(tmp_path, body, ttl="1s") as estate:
        estate.api._wants = ""
        estate.api.handle("/noted", note)
        answers: Counter[str] = Counter()
        async with asyncio.timeout(60):
            # Until each value has been sent after the other one.
            while len({*got}) < 2 or runs(tmp_path) < 4:
                answers += await crowd(estate, first="/noted/c")
        assert {*got} == {f"Bearer {value}" for value in VALUES}
        assert answers.keys() == {"200"}
        assert len(got) == answers["200"]
        assert runs(tmp_path) < len(got) // 5
        await check_log(estate, answers)


@pytest.mark.parametrize("body", ["", "echo", "head -c 100000 /dev/zero", "printf 'two\\nlines'"])
async def test_what_is_no_value_is_not_sent(tmp_path: Path, body: str) -> None:
    async with estate_of(tmp_path, body) as estate:
        assert await ask(estate, API, "/small/x", 2) == ["secret.unavailable"] * 2
        assert not estate.seen
