"""`AsyncSandbox`: the same API for asyncio programs.

Every method is the blocking one, with its arguments and its documentation, run in a thread. Methods that
return a part, such as a process, return the part's awaitable twin.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Self

from egress.fleet.lifetime import OnIdle
from egress.fleet.protocol import Snapshot
from egress.runtime.protocol import Runtime
from egress.runtime.spec import NO_VALUES, Info, Values
from egress.sandbox.async_bridge import (
    AsyncContextTwin,
    AsyncTwin,
    awaited,
    copy_docstring,
    in_thread,
    iterate_in_thread,
    iterated,
    wrapped,
)
from egress.sandbox.attached_terminal import AttachedTerminal
from egress.sandbox.audit import SandboxAudit
from egress.sandbox.files import Files
from egress.sandbox.found_process import FoundProcess
from egress.sandbox.git import Git
from egress.sandbox.handle import Sandbox
from egress.sandbox.options import Size, Variables, Volumes
from egress.sandbox.paths import Where
from egress.sandbox.policy import SandboxPolicy
from egress.sandbox.process import Process, Stream
from egress.sandbox.session import Session
from egress.sandbox.terminal import Pty
from egress.sandbox.watch import Change


class AsyncStream(AsyncTwin[Stream]):
    """An output of a process; see `Stream`."""

    chunks = iterated(Stream.chunks)
    byte_chunks = iterated(Stream.byte_chunks)
    lines = iterated(Stream.lines)

    @copy_docstring(Stream.read)
    def read(self) -> str:
        return self._sync.read()

    @copy_docstring(Stream.read_bytes)
    def read_bytes(self) -> bytes:
        return self._sync.read_bytes()


class AsyncProcess(AsyncContextTwin[Process]):
    """A command in the background; see `Process`."""

    def __init__(self, sync: Process) -> None:
        super().__init__(sync)
        # The outputs are wrapped once, so that `process.stdout` is the same object each time.
        self.stdout = AsyncStream(sync.stdout)
        self.stderr = AsyncStream(sync.stderr)

    write = awaited(Process.write)
    close_stdin = awaited(Process.close_stdin)
    wait = awaited(Process.wait)
    kill = awaited(Process.kill)
    wait_for_log = awaited(Process.wait_for_log)
    wait_for_port = awaited(Process.wait_for_port)

    @copy_docstring(Process.poll)
    def poll(self) -> int | None:
        # No thread, because this never waits.
        return self._sync.poll()

    @copy_docstring(Process.logs)
    def logs(self) -> str:
        return self._sync.logs()


class AsyncAttachedTerminal(AsyncContextTwin[AttachedTerminal]):
    """A place at the terminal of a process; see `AttachedTerminal`."""

    read = iterated(AttachedTerminal.read)
    write = awaited(AttachedTerminal.write)
    resize = awaited(AttachedTerminal.resize)
    close = awaited(AttachedTerminal.close)


class AsyncFoundProcess(AsyncTwin[FoundProcess]):
    """A process that is found by its id; see `FoundProcess`."""

    @property
    def id(self) -> str:
        """The id by which any program finds it."""
        return self._sync.id

    status = awaited(FoundProcess.status)
    read = awaited(FoundProcess.read)
    follow = iterated(FoundProcess.follow)
    write = awaited(FoundProcess.write)
    close_stdin = awaited(FoundProcess.close_stdin)
    kill = awaited(FoundProcess.kill)
    wait = awaited(FoundProcess.wait)
    attach = wrapped(FoundProcess.attach, AsyncAttachedTerminal)
    forget = awaited(FoundProcess.forget)


class AsyncSession(AsyncContextTwin[Session]):
    """A persistent shell; see `Session`."""

    @property
    def id(self) -> str:
        """The id by which any program finds it."""
        return self._sync.id

    status = awaited(Session.status)
    exec = awaited(Session.exec)
    close = awaited(Session.close)


class AsyncFiles(AsyncTwin[Files]):
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
    @copy_docstring(Files.watch)
    async def watch(
        self, path: Where = ".", *, interval: float = 0.5
    ) -> AsyncIterator[AsyncIterator[Change]]:
        # Entered and left by hand, because both ends of the blocking context may wait.
        context: AbstractContextManager[Iterator[Change]] = self._sync.watch(path, interval=interval)
        changes = await in_thread(context.__enter__)
        try:
            yield iterate_in_thread(changes)
        finally:
            await in_thread(context.__exit__, None, None, None)


class AsyncGit(AsyncTwin[Git]):
    """Clones; see `Git`."""

    clone = awaited(Git.clone)


class AsyncSandboxPolicy(AsyncTwin[SandboxPolicy]):
    """The rules of one sandbox; see `SandboxPolicy`."""

    show = awaited(SandboxPolicy.show)
    allow = awaited(SandboxPolicy.allow)
    deny = awaited(SandboxPolicy.deny)
    choose_profile = awaited(SandboxPolicy.choose_profile)
    undo = awaited(SandboxPolicy.undo)
    handlers = awaited(SandboxPolicy.handlers)
    set_outbound_handler = awaited(SandboxPolicy.set_outbound_handler)
    set_outbound_by_host = awaited(SandboxPolicy.set_outbound_by_host)
    set_outbound_by_hosts = awaited(SandboxPolicy.set_outbound_by_hosts)
    remove_outbound_by_host = awaited(SandboxPolicy.remove_outbound_by_host)
    explain = awaited(SandboxPolicy.explain)


class AsyncSandboxAudit(AsyncTwin[SandboxAudit]):
    """The lines of the log about one sandbox; see `SandboxAudit`."""

    query = awaited(SandboxAudit.query)
    follow = iterated(SandboxAudit.follow)


class AsyncPty(AsyncContextTwin[Pty]):
    """A program in a terminal; see `Pty`."""

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


class AsyncSandbox(AsyncContextTwin[Sandbox]):
    r"""A sandbox; see `Sandbox`. Cancelling a task ends the command that it waits for.

    >>> async with await AsyncSandbox.create() as sandbox:  # doctest: +SKIP
    ...     (await sandbox.exec("echo hello")).text
    'hello\n'
    """

    def __init__(self, sync: Sandbox) -> None:
        super().__init__(sync)
        self.files = AsyncFiles(sync.files)
        self.git = AsyncGit(sync.git)
        self.policy = AsyncSandboxPolicy(sync.policy)
        self.audit = AsyncSandboxAudit(sync.audit)

    @property
    def name(self) -> str:
        """The name of the sandbox."""
        return self._sync.name

    @classmethod
    @copy_docstring(Sandbox.create)
    async def create(  # noqa: PLR0913 - the parameters of the blocking method
        cls,
        *,
        name: str | None = None,
        image: str | None = None,
        snapshot: str | None = None,
        profile: str | None = None,
        params: Values = NO_VALUES,
        env: Variables | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the lifetime of the sandbox
        idle_timeout: float | None = None,
        on_idle: OnIdle = "delete",
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        labels: Values = NO_VALUES,
        volumes: Volumes | None = None,
        runtime: Runtime | str | None = None,
    ) -> Self:
        # Every argument by name: a new parameter of the blocking method cannot shift another one.
        made = await in_thread(
            Sandbox.create,
            name=name,
            image=image,
            snapshot=snapshot,
            profile=profile,
            params=params,
            env=env,
            timeout=timeout,
            idle_timeout=idle_timeout,
            on_idle=on_idle,
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
    @copy_docstring(Sandbox.prepare)
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
        runtime: Runtime | str | None = None,
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
    @copy_docstring(Sandbox.connect)
    async def connect(cls, name: str, *, runtime: Runtime | str | None = None) -> Self:
        return cls(await in_thread(Sandbox.connect, name, runtime=runtime))

    @classmethod
    @copy_docstring(Sandbox.list)
    async def list(cls, *, labels: Values = NO_VALUES, runtime: Runtime | str | None = None) -> list[Info]:
        return await in_thread(Sandbox.list, labels=labels, runtime=runtime)

    @classmethod
    @copy_docstring(Sandbox.snapshots)
    async def snapshots(cls, *, runtime: Runtime | str | None = None) -> builtins.list[Snapshot]:
        return await in_thread(Sandbox.snapshots, runtime=runtime)

    @classmethod
    @copy_docstring(Sandbox.delete_snapshot)
    async def delete_snapshot(cls, name: str, *, runtime: Runtime | str | None = None) -> None:
        await in_thread(Sandbox.delete_snapshot, name, runtime=runtime)

    # Each method is listed: type checkers and readers see the whole interface here.
    stop = awaited(Sandbox.stop)
    start = awaited(Sandbox.start)
    sleep = awaited(Sandbox.sleep)
    wake = awaited(Sandbox.wake)
    delete = awaited(Sandbox.delete)
    pause = awaited(Sandbox.pause)
    resume = awaited(Sandbox.resume)
    set_timeout = awaited(Sandbox.set_timeout)
    set_idle_timeout = awaited(Sandbox.set_idle_timeout)
    info = awaited(Sandbox.info)
    status = awaited(Sandbox.status)
    exec = awaited(Sandbox.exec)
    spawn = wrapped(Sandbox.spawn, AsyncProcess)
    start_process = wrapped(Sandbox.start_process, AsyncFoundProcess)
    start_terminal = wrapped(Sandbox.start_terminal, AsyncFoundProcess)
    processes = awaited(Sandbox.processes)
    process = wrapped(Sandbox.process, AsyncFoundProcess)
    session = wrapped(Sandbox.session, AsyncSession)
    sessions = awaited(Sandbox.sessions)
    pty = wrapped(Sandbox.pty, AsyncPty)
    expose = awaited(Sandbox.expose)
    previews = awaited(Sandbox.previews)
    unexpose = awaited(Sandbox.unexpose)
    wait_for_port = awaited(Sandbox.wait_for_port)
    save = awaited(Sandbox.save)
    restore = awaited(Sandbox.restore)
    snapshot = awaited(Sandbox.snapshot)
