"""`AsyncSandbox`: the same handle for programs that await.

There is one source of truth: every method here is the one of the blocking handle, with its arguments and its
words, run in a thread. What returns a part, such as a process, returns the awaitable twin of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

from egress.runtime.protocol import Runtime
from egress.runtime.spec import NOTHING, Info, Values
from egress.sandbox.files import Files
from egress.sandbox.git import Git
from egress.sandbox.handle import Sandbox
from egress.sandbox.options import Size, Variables, Volumes
from egress.sandbox.paths import Where
from egress.sandbox.process import Process, Stream
from egress.sandbox.session import Session
from egress.sandbox.terminal import Pty
from egress.sandbox.twin import Twin, awaited, in_thread, iterated, made, said_by, stepped
from egress.sandbox.watch import Change


class AsyncStream(Twin[Stream]):
    """What a process writes to one of its outputs; see `Stream`."""

    chunks = iterated(Stream.chunks)
    lines = iterated(Stream.lines)

    @said_by(Stream.read)
    def read(self) -> bytes:
        return self._sync.read()


class AsyncProcess(Twin[Process]):
    """A command that goes on; see `Process`."""

    def __init__(self, sync: Process) -> None:
        super().__init__(sync)
        self.stdout = AsyncStream(sync.stdout)
        self.stderr = AsyncStream(sync.stderr)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self._sync.__exit__, kind, error, trace)

    write = awaited(Process.write)
    close_stdin = awaited(Process.close_stdin)
    wait = awaited(Process.wait)
    kill = awaited(Process.kill)
    wait_for_log = awaited(Process.wait_for_log)
    wait_for_port = awaited(Process.wait_for_port)

    @said_by(Process.poll)
    def poll(self) -> int | None:
        return self._sync.poll()

    @said_by(Process.logs)
    def logs(self) -> str:
        return self._sync.logs()


class AsyncSession(Twin[Session]):
    """A shell that stays; see `Session`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    exec = awaited(Session.exec)
    close = awaited(Session.close)


class AsyncFiles(Twin[Files]):
    """The files of one sandbox; see `Files`."""

    read = awaited(Files.read)
    read_text = awaited(Files.read_text)
    write = awaited(Files.write)
    stat = awaited(Files.stat)
    exists = awaited(Files.exists)
    listdir = awaited(Files.listdir)
    mkdir = awaited(Files.mkdir)
    remove = awaited(Files.remove)
    rename = awaited(Files.rename)
    copy_in = awaited(Files.copy_in)
    copy_out = awaited(Files.copy_out)

    @asynccontextmanager
    @said_by(Files.watch)
    async def watch(
        self, path: Where = ".", *, interval: float = 0.5
    ) -> AsyncIterator[AsyncIterator[Change]]:
        context: AbstractContextManager[Iterator[Change]] = self._sync.watch(path, interval=interval)
        changes = await in_thread(context.__enter__)
        try:
            yield stepped(changes)
        finally:
            await in_thread(context.__exit__, None, None, None)


class AsyncGit(Twin[Git]):
    """Clones; see `Git`."""

    clone = awaited(Git.clone)


class AsyncPty(Twin[Pty]):
    """A program in a terminal; see `Pty`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def cols(self) -> int:
        return self._sync.cols

    @property
    def rows(self) -> int:
        return self._sync.rows

    write = awaited(Pty.write)
    read = iterated(Pty.read)
    resize = awaited(Pty.resize)
    wait = awaited(Pty.wait)
    close = awaited(Pty.close)


class AsyncSandbox(Twin[Sandbox]):
    r"""One sandbox; see `Sandbox`. A task that is cancelled ends the command that it waits for.

    >>> async with await AsyncSandbox.create() as sandbox:  # doctest: +SKIP
    ...     (await sandbox.exec("echo hello")).text
    'hello\n'
    """

    def __init__(self, sync: Sandbox) -> None:
        super().__init__(sync)
        self.files = AsyncFiles(sync.files)
        self.git = AsyncGit(sync.git)

    @property
    def name(self) -> str:
        """Its name."""
        return self._sync.name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.delete()

    @classmethod
    @said_by(Sandbox.create)
    async def create(  # noqa: PLR0913 - as the blocking one
        cls,
        *,
        name: str | None = None,
        image: str | None = None,
        profile: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - that of the sandbox
        idle_timeout: float | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        labels: Values = NOTHING,
        volumes: Volumes | None = None,
        runtime: Runtime | None = None,
    ) -> Self:
        made = await in_thread(
            Sandbox.create,
            name=name,
            image=image,
            profile=profile,
            env=env,
            timeout=timeout,
            idle_timeout=idle_timeout,
            memory=memory,
            cpus=cpus,
            pids=pids,
            size=size,
            temporary=temporary,
            labels=labels,
            volumes=volumes,
            runtime=runtime,
        )
        return cls(made)

    @classmethod
    @said_by(Sandbox.prepare)
    async def prepare(
        cls,
        count: int,
        *,
        image: str | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        await in_thread(
            Sandbox.prepare,
            count,
            image=image,
            memory=memory,
            cpus=cpus,
            pids=pids,
            size=size,
            temporary=temporary,
            runtime=runtime,
        )

    @classmethod
    @said_by(Sandbox.connect)
    async def connect(cls, name: str, *, runtime: Runtime | None = None) -> Self:
        return cls(await in_thread(Sandbox.connect, name, runtime=runtime))

    @classmethod
    @said_by(Sandbox.list)
    async def list(cls, *, labels: Values = NOTHING, runtime: Runtime | None = None) -> list[Info]:
        return await in_thread(Sandbox.list, labels=labels, runtime=runtime)

    stop = awaited(Sandbox.stop)
    start = awaited(Sandbox.start)
    delete = awaited(Sandbox.delete)
    pause = awaited(Sandbox.pause)
    resume = awaited(Sandbox.resume)
    info = awaited(Sandbox.info)
    status = awaited(Sandbox.status)
    exec = awaited(Sandbox.exec)
    spawn = made(Sandbox.spawn, AsyncProcess)
    session = made(Sandbox.session, AsyncSession)
    pty = made(Sandbox.pty, AsyncPty)
    expose = awaited(Sandbox.expose)
    unexpose = awaited(Sandbox.unexpose)
    wait_for_port = awaited(Sandbox.wait_for_port)
    save = awaited(Sandbox.save)
    restore = awaited(Sandbox.restore)
