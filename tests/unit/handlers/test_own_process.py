"""Handlers in workers: one call harms no other, and one sandbox never has them all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.errors import ContentError
from egress.exchange import AllowByHandler, AnswerByHandler, DenyByHandler, HandlerFault, HandlerVerdict
from egress.handlers.own_process import MAX_WAITING, SANDBOX_WORKERS, WORKERS, ProcessHandlers
from egress.handlers.worker_messages import MAX_FRAME_BYTES
from tests.unit.handlers.samples import call, file_of

FILE = f"""
import asyncio, json, os, sys, threading, time

@handler
def one(request: Request, context: Context):
    match request.path:
        case "/allow": return Allow()
        case "/who": return Answer(200, str(os.getpid()))
        case "/env": return Answer(200, json.dumps(dict(os.environ)))
        case "/files": return Answer(200, json.dumps(os.listdir("/proc/self/fd")))
        case "/awaits":
            async def later():
                await asyncio.sleep(0.01)
                return Deny("later")
            return later()
        case "/gone": os._exit(1)
        case "/frame":
            os.write(int(sys.argv[1]), ({MAX_FRAME_BYTES} + 1).to_bytes(4, "big"))
            time.sleep(30)
        case "/spoken":
            os.write(int(sys.argv[1]), b"\\x00\\x00\\x00\\x01\\xc0")
            return Allow()
        case "/later":
            threading.Timer(0.05, lambda: os.write(int(sys.argv[1]), b"\\x00\\x00\\x00\\x01\\xc0")).start()
            return Allow()

@handler(deadline=0.5)
def hangs(request: Request, context: Context):
    time.sleep(30)

@handler(deadline=20)
def waits(request: Request, context: Context):
    end = time.monotonic() + 20
    while not os.path.exists(context.params["file"]) and time.monotonic() < end:
        time.sleep(0.01)
    return Allow()
"""


async def verdict(found: HandlerVerdict | Awaitable[HandlerVerdict]) -> HandlerVerdict:
    return await found if isinstance(found, Awaitable) else found


@asynccontextmanager
async def opened(folder: Path, text: str = FILE) -> AsyncIterator[ProcessHandlers]:
    made = await ProcessHandlers.open(file_of(folder, text))
    try:
        yield made
    finally:
        await made.close()


async def asked(
    made: ProcessHandlers, target: str, name: str = "one", sandbox: str = "box"
) -> HandlerVerdict:
    return await verdict(made.start(call(name, target, sandbox=sandbox), b""))


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; a minute is a failure."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - a process says nothing when it changes
            await asyncio.sleep(0.02)


async def text(made: ProcessHandlers, target: str) -> str:
    found = await asked(made, target)
    assert isinstance(found, AnswerByHandler), found
    return found.body.decode()


async def test_a_worker_answers_call_after_call(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        assert made.outbound.names == ("hangs", "one", "waits")
        assert await asked(made, "/allow") == AllowByHandler()
        assert await asked(made, "/awaits") == DenyByHandler("later")
        assert await text(made, "/who") == await text(made, "/who")
        assert int(await text(made, "/who")) != os.getpid()


async def test_a_worker_has_nothing_of_the_proxy_but_its_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRESS_TEST_TOKEN", "sesame")
    async with opened(tmp_path) as made:
        assert "sesame" not in await text(made, "/env")
        # Three streams that lead nowhere, the channel, the parts of its loop, and the list itself.
        assert len(await text(made, "/files")) < 80


async def test_a_worker_that_does_not_answer_is_killed_and_another_takes_its_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        before = int(await text(made, "/who"))
        assert await asked(made, "/", "hangs") == HandlerFault("timeout")
        assert int(await text(made, "/who")) != before
        await until(lambda: not Path(f"/proc/{before}").exists())


@pytest.mark.parametrize("target", ["/gone", "/frame", "/spoken"])
async def test_a_worker_that_speaks_out_of_turn_is_lost(tmp_path: Path, target: str) -> None:
    async with opened(tmp_path) as made:
        assert await asked(made, target) == HandlerFault("lost")
        assert await asked(made, "/allow") == AllowByHandler()


async def test_what_a_worker_says_between_two_calls_ends_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        before = await text(made, "/who")
        assert await asked(made, "/later") == AllowByHandler()
        (worker,) = made._workers
        await until(lambda: worker.is_lost)
        assert await text(made, "/who") != before


async def test_one_sandbox_never_has_all_workers(tmp_path: Path) -> None:
    file = tmp_path / "go"
    async with opened(tmp_path) as made:
        params = f'{{"file": "{file}"}}'
        held = [
            asyncio.ensure_future(verdict(made.start(call("waits", "/", params=params), b"")))
            for _ in range(WORKERS + 2)
        ]
        assert await asked(made, "/allow", sandbox="other") == AllowByHandler()
        await until(lambda: made._running["box"] == SANDBOX_WORKERS)
        assert await asked(made, "/allow", sandbox="other") == AllowByHandler()
        assert made._running["box"] == SANDBOX_WORKERS
        assert not any(each.done() for each in held)
        file.touch()
        assert await asyncio.gather(*held) == [AllowByHandler()] * (WORKERS + 2)
        assert not made._running
        assert not made._waiting


async def test_calls_that_wait_for_a_worker_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "go"
    async with opened(tmp_path) as made:
        params = f'{{"file": "{file}"}}'
        held = [
            asyncio.ensure_future(verdict(made.start(call("waits", "/", params=params), b"")))
            for _ in range(SANDBOX_WORKERS + MAX_WAITING)
        ]
        await until(lambda: len(made._waiting.get("box", ())) == MAX_WAITING)
        assert made.start(call("waits", "/", params=params), b"") == HandlerFault("busy")
        file.touch()
        assert set(await asyncio.gather(*held)) == {AllowByHandler()}


async def test_a_client_that_leaves_costs_no_worker_and_frees_no_place(tmp_path: Path) -> None:
    file = tmp_path / "go"
    async with opened(tmp_path) as made:
        before = await text(made, "/who")
        params = f'{{"file": "{file}"}}'
        held = asyncio.ensure_future(verdict(made.start(call("waits", "/", params=params), b"")))
        await until(lambda: made._running["box"] == 1)
        await asyncio.sleep(0)
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held
        assert made._running["box"] == 1
        file.touch()
        await until(lambda: not made._running)
        assert await text(made, "/who") == before


async def test_a_client_that_leaves_a_call_that_hangs_frees_its_place_in_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        held = asyncio.ensure_future(verdict(made.start(call("hangs", "/"), b"")))
        await until(lambda: made._running["box"] == 1)
        held.cancel()
        await until(lambda: not made._running)
        assert await asked(made, "/allow") == AllowByHandler()


async def test_a_call_that_cannot_be_written_costs_no_worker(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        before = await text(made, "/who")
        with pytest.raises(UnicodeEncodeError):
            await verdict(made.start(call("one", "/allow", params='{"a": "\ud800"}'), b""))
        assert await text(made, "/who") == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/0\n", "handlers.py:2: the handlers cannot be loaded (ZeroDivisionError)"),
        ("import os\nos._exit(3)\n", "a worker with these handlers does not start"),
    ],
)
async def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ContentError) as caught:
        await ProcessHandlers.open(file_of(tmp_path, text))
    assert said in str(caught.value)


async def test_after_the_end_nothing_is_called(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        pass
    assert made.start(call(target="/allow"), b"") == HandlerFault("lost")
    assert made.start(call("none"), b"") == HandlerFault("lost")


async def test_every_worker_runs_the_file_as_it_was_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        file_of(tmp_path, "@handler\ndef one(request, context): return Deny('another')\n")
        assert await asked(made, "/gone") == HandlerFault("lost")
        assert await asked(made, "/allow") == AllowByHandler()
