"""The awaitable handle is the blocking one: same names, same arguments, same words."""

from __future__ import annotations

import asyncio
import inspect
import time
from pathlib import Path

import pytest

from egress.runtime.errors import SandboxNotFoundError
from egress.runtime.fake import FakeRuntime
from egress.sandbox import aio
from egress.sandbox.files import Files
from egress.sandbox.found_process import FoundProcess
from egress.sandbox.git import Git
from egress.sandbox.handle import Sandbox
from egress.sandbox.process import Process, Stream
from egress.sandbox.session import Session
from egress.sandbox.terminal import Pty
from egress.sandbox.watch import Change
from tests.unit.sandbox.local_runtime import LocalRuntime

TWINS: list[tuple[type, type]] = [
    (Sandbox, aio.AsyncSandbox),
    (Files, aio.AsyncFiles),
    (Git, aio.AsyncGit),
    (Process, aio.AsyncProcess),
    (FoundProcess, aio.AsyncFoundProcess),
    (Stream, aio.AsyncStream),
    (Session, aio.AsyncSession),
    (Pty, aio.AsyncPty),
]


def surface(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def parameters(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    found = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in found if each.name != "self"]


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_both_have_the_same_surface(sync: type, twin: type) -> None:
    # What is set when one is made, such as `files`, is looked at below; properties are plain on both sides.
    assert set(surface(twin)) - {"cols", "rows"} == set(surface(sync))
    for name, method in surface(sync).items():
        other = surface(twin)[name]
        assert getattr(other, "__doc__", None) == getattr(method, "__doc__", None), name
        if callable(method):
            assert parameters(other) == parameters(method), name


def test_what_waits_is_awaited() -> None:
    plain = {
        "poll",
        "logs",
        "read",
        "read_bytes",
        "chunks",
        "byte_chunks",
        "lines",
        "watch",
        "follow",
        "id",
        "name",
        "cols",
        "rows",
    }
    for _, twin in TWINS:
        for name, method in surface(twin).items():
            assert name in plain or inspect.iscoroutinefunction(method), name


async def test_it_comes_and_goes_with_its_block() -> None:
    runtime = FakeRuntime()
    await aio.AsyncSandbox.prepare(1, image="any", runtime=runtime)
    async with await aio.AsyncSandbox.create(name="one", image="any", runtime=runtime) as sandbox:
        assert repr(sandbox) == "<AsyncSandbox 'one'>"
        assert sandbox.name == "one"
        assert (await sandbox.exec(["echo", "hi"])).text == "hi\n"
        assert await sandbox.status() == "running"
        async with await aio.AsyncSandbox.connect("one", runtime=runtime) as connected:
            assert connected.name == "one"
        assert await sandbox.status() == "running"
        assert [info.name for info in await aio.AsyncSandbox.list(runtime=runtime)] == ["one"]
    with pytest.raises(SandboxNotFoundError):
        await sandbox.info()
    runtime.close()


async def test_parts_of_it_are_awaited_too(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path)
    async with await aio.AsyncSandbox.create(image="any", runtime=runtime) as sandbox:
        await sandbox.files.write("a/b", "text")
        assert await sandbox.files.read_text("a/b") == "text"
        async with await sandbox.spawn("echo one; echo two") as process:
            assert [line async for line in process.stdout.lines()] == ["one", "two"]
            assert (await process.wait()).exit_code == 0
            assert process.poll() == 0
            assert process.stdout.read() == process.logs()
            assert process.stdout.read_bytes() == process.logs().encode()
        async with await sandbox.session() as session:
            await session.exec("x=1")
            assert (await session.exec("echo $x")).text == "1\n"
        async with sandbox.files.watch("a", interval=0.1) as changes:
            await sandbox.files.write("a/new", "")
            assert await anext(changes) == Change("made", "a/new")
        async with await sandbox.pty("echo shown; cat") as terminal:
            async for piece in terminal.read():
                assert b"shown" in piece
                break
            assert (terminal.cols, terminal.rows) == (80, 24)


async def test_commands_run_side_by_side(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path)
    async with await aio.AsyncSandbox.create(image="any", runtime=runtime) as sandbox:
        results = await asyncio.gather(*(sandbox.exec(f"echo {number}") for number in range(10)))
        assert [int(result.text) for result in results] == list(range(10))


async def test_a_cancelled_task_ends_its_command(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path)
    async with await aio.AsyncSandbox.create(image="any", runtime=runtime) as sandbox:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sandbox.exec("touch begun; sleep 61; touch never"), 0.5)
        assert time.monotonic() - began < 20
        assert await sandbox.files.listdir() == ["begun"]
        process = await sandbox.spawn("sleep 62")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.1)
        assert process.poll() is None
        session = await sandbox.session()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.exec("sleep 63"), 0.5)
        assert (await session.exec("echo on")).text == "on\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait_for_log("never"), 0.1)
        await session.close()
        await process.kill()
