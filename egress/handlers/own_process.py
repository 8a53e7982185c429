"""Handlers in processes of their own: workers that are killed when a call takes too long.

A worker runs one call at a time, so whatever a call does to its process harms no other call: it may hang,
allocate or end, and the proxy denies, kills the worker and starts another. One sandbox has never all of the
workers, and waits only for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, Self, override

import msgspec

from egress.errors import ContentError
from egress.exchange.handler_call import HandlerCall, HandlerFault, HandlerVerdict
from egress.handlers.conversion import ODD_VALUE, seen_by_handler, verdict_of
from egress.handlers.interface import Allow, Answer, Deny, Request
from egress.handlers.module import read_module
from egress.handlers.worker_messages import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    CallMessage,
    Manifest,
    Reply,
    Source,
    frame,
)
from egress.logger import EventLogger
from egress.rules.decide.outbound import HandlerChoice, Outbound
from egress.rules.language.hosts import parse_host_pattern
from egress.types import HandlerUse

WORKERS: Final = 4
"""Worker processes, which are started when they are needed."""
SANDBOX_WORKERS: Final = WORKERS - 1
"""Workers that one sandbox may have at a time."""
MAX_WAITING: Final = 64
"""Calls of one sandbox that wait for a worker."""
START_SECONDS: Final = 20.0
"""How long a worker may take to load the handlers."""

_TICKET_BYTES: Final = 16
_BUSY_FAULT: Final = HandlerFault("busy")
_TIMEOUT_FAULT: Final = HandlerFault("timeout")
_LOST_FAULT: Final = HandlerFault("lost")
_RAISED_FAULT: Final = HandlerFault("raised")
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

log = EventLogger(__name__)


class WorkerLostError(Exception):
    """The worker has ended, or said something that no call asked for."""


class Worker(asyncio.Protocol):
    """A worker process, and the channel to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._wanted: asyncio.Future[bytes] | None = None
        self.is_lost = False

    @classmethod
    async def start(cls, source: Source) -> tuple[Self, Manifest]:
        """Start a worker with this file; return what it found there. Raises `WorkerLostError`."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.to_thread(_spawn, theirs)
        worker = cls(process)
        ours.setblocking(False)  # noqa: FBT003 - the interface of sockets
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        try:
            async with asyncio.timeout(START_SECONDS):
                data = await worker.ask(frame(source))
            return worker, msgspec.msgpack.decode(data, type=Manifest)
        except (TimeoutError, msgspec.DecodeError, WorkerLostError) as error:
            worker.kill()
            raise WorkerLostError(type(error).__name__) from None
        except BaseException:
            worker.kill()
            raise

    async def ask(self, message: bytes) -> bytes:
        """Send a message and return the answer to it. Raises `WorkerLostError`."""
        if self.is_lost or self._transport is None or self._wanted is not None:
            raise WorkerLostError("the worker takes no message")
        wanted: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._wanted = wanted
        self._transport.write(message)
        return await wanted

    def kill(self) -> None:
        """End the process, with all that it has started."""
        if self.is_lost:
            return
        self.is_lost = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()
        self._fail()
        # In a thread, because a process that is stuck in the kernel ends late.
        asyncio.get_running_loop().run_in_executor(None, self._process.wait)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.kill()

    @override
    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) < LENGTH_BYTES:
            return
        size = int.from_bytes(self._unread[:LENGTH_BYTES], "big") + LENGTH_BYTES
        # Whatever follows an answer, or comes without a question, is from somebody else.
        if self._wanted is None or size > MAX_FRAME_BYTES or len(self._unread) > size:
            self.kill()
        elif len(self._unread) == size:
            answer, self._unread = bytes(self._unread[LENGTH_BYTES:]), bytearray()
            wanted, self._wanted = self._wanted, None
            if not wanted.done():
                wanted.set_result(answer)

    def _fail(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None and not wanted.done():
            wanted.set_exception(WorkerLostError("the worker has ended"))


class ProcessHandlers:
    """Calls the handlers of a file in workers."""

    def __init__(self, source: Source, manifest: Manifest) -> None:
        """Hold a file whose `manifest` a worker has sent; see `open`."""
        self._source = source
        self._manifest = manifest
        self._deadlines = {each.name: each.deadline for each in manifest.handlers}
        by_host = {parse_host_pattern(host): HandlerUse(name) for host, name in manifest.by_host.items()}
        static = HandlerChoice(by_host, HandlerUse(manifest.catch_all) if manifest.catch_all else None)
        self.outbound = Outbound({each.name: each.body for each in manifest.handlers}, static)
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._starting = 0
        self._running: Counter[str] = Counter()
        """Calls in a worker, by sandbox."""
        self._waiting: dict[str, deque[asyncio.Future[Worker]]] = {}
        """Calls that wait for a worker, by sandbox: the first sandbox is the next."""
        self._tasks: set[asyncio.Task[None] | asyncio.Task[Reply | HandlerFault]] = set()
        self._is_closed = False

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Load a file of handlers. Raises `UnreadableError` and `ContentError`."""
        source = Source(str(path), read_module(path))
        try:
            worker, manifest = await Worker.start(source)
        except WorkerLostError as error:
            raise ContentError(
                f"{path}: a worker with these handlers does not start ({error})",
                f"run it by itself: python {path}",
            ) from None
        if manifest.error:
            worker.kill()
            raise ContentError(manifest.error, manifest.hint)
        made = cls(source, manifest)
        made._workers.add(worker)
        made._idle.append(worker)
        return made

    def start(self, call: HandlerCall, body: bytes) -> HandlerVerdict | Awaitable[HandlerVerdict]:
        """Call a handler in the next worker that is free."""
        if call.use.name not in self._deadlines or self._is_closed:
            return _LOST_FAULT
        if len(self._waiting.get(call.identity.sandbox, ())) >= MAX_WAITING:
            return _BUSY_FAULT
        return self._call(call, body)

    async def close(self) -> None:
        """End all workers."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        for worker in list(self._workers):
            worker.kill()

    # One call

    async def _call(self, call: HandlerCall, body: bytes) -> HandlerVerdict:
        sandbox, deadline = call.identity.sandbox, self._deadlines[call.use.name]
        request, _ = seen_by_handler(call, body)
        message = _message(call, request)
        # Before a worker is taken: a value that cannot be written must not cost one.
        data = frame(message)
        try:
            async with asyncio.timeout(deadline):
                worker = await self._free_worker(sandbox)
        except TimeoutError:
            return _BUSY_FAULT
        asking = asyncio.get_running_loop().create_task(
            self._ask(worker, sandbox, deadline, message.ticket, data)
        )
        self._tasks.add(asking)
        asking.add_done_callback(self._tasks.discard)
        # A client that leaves does not end the call. Its worker would have to be killed, and a sandbox that
        # comes and goes would have the proxy start workers without end.
        reply = await asyncio.shield(asking)
        return self._verdict(call, reply, request) if isinstance(reply, Reply) else reply

    async def _ask(
        self, worker: Worker, sandbox: str, deadline: float, ticket: bytes, data: bytes
    ) -> Reply | HandlerFault:
        """Return what a worker says, and give it back; one that says nothing sound is killed."""
        try:
            async with asyncio.timeout(deadline):
                return _reply_to(ticket, await worker.ask(data))
        except TimeoutError:
            worker.kill()
            return _TIMEOUT_FAULT
        except (WorkerLostError, msgspec.DecodeError):
            worker.kill()
            return _LOST_FAULT
        except BaseException:
            # The proxy ends: nobody waits for the worker any more.
            worker.kill()
            raise
        finally:
            self._give_back(worker, sandbox)

    def _verdict(self, call: HandlerCall, reply: Reply, request: Request) -> HandlerVerdict:
        if reply.kind in ("raised", "value"):
            detail = "".join(char if char.isprintable() else " " for char in reply.detail)
            log.warning("handler.failed", handler=call.use.name, kind=reply.kind, error=detail)
            return _RAISED_FAULT if reply.kind == "raised" else ODD_VALUE
        if reply.kind == "deny":
            return verdict_of(Deny(reply.reason), request)
        if reply.kind == "answer":
            return verdict_of(Answer(reply.status, reply.body or b"", reply.headers), request)
        return verdict_of(
            Allow(reply.method, reply.path, reply.query, reply.headers, reply.removed, reply.body), request
        )

    # The workers

    async def _free_worker(self, sandbox: str) -> Worker:
        """Return a worker for this sandbox, when it is its turn."""
        self._idle = [worker for worker in self._idle if not worker.is_lost]
        if self._idle and not self._waiting and self._running[sandbox] < SANDBOX_WORKERS:
            self._running[sandbox] += 1
            return self._idle.pop()
        waits: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sandbox, deque()).append(waits)
        self._hand_out()
        try:
            return await waits
        except BaseException:
            if waits.done() and not waits.cancelled():
                self._give_back(waits.result(), sandbox)
            else:
                self._forget(sandbox, waits)
            raise

    def _hand_out(self) -> None:
        """Give free workers to those that wait, to one sandbox after the other."""
        self._idle = [worker for worker in self._idle if not worker.is_lost]
        self._workers = {worker for worker in self._workers if not worker.is_lost}
        for sandbox in list(self._waiting):
            if self._running[sandbox] >= SANDBOX_WORKERS:
                continue
            if not self._idle:
                break
            waits = self._waiting[sandbox].popleft()
            # One that has given up meanwhile takes no worker.
            if not waits.done():
                self._running[sandbox] += 1
                waits.set_result(self._idle.pop())
            # Behind the others, if it has more.
            rest = self._waiting.pop(sandbox)
            if rest:
                self._waiting[sandbox] = rest
        if self._waiting and not self._idle:
            self._start_worker()

    def _give_back(self, worker: Worker, sandbox: str) -> None:
        self._running[sandbox] -= 1
        if not self._running[sandbox]:
            del self._running[sandbox]
        if worker.is_lost:
            self._workers.discard(worker)
        else:
            self._idle.append(worker)
        if not self._is_closed:
            self._hand_out()

    def _forget(self, sandbox: str, waits: asyncio.Future[Worker]) -> None:
        rest = self._waiting.get(sandbox)
        if rest is not None and waits in rest:
            rest.remove(waits)
            if not rest:
                del self._waiting[sandbox]

    def _start_worker(self) -> None:
        if self._is_closed or len(self._workers) + self._starting >= WORKERS:
            return
        self._starting += 1
        task = asyncio.get_running_loop().create_task(self._started())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _started(self) -> None:
        try:
            worker, manifest = await Worker.start(self._source)
        except (WorkerLostError, OSError) as error:
            log.error("handlers.unstarted", error=type(error).__name__)  # noqa: TRY400 - no foreign text
            return
        finally:
            self._starting -= 1
        if manifest != self._manifest or self._is_closed:
            worker.kill()
            return
        self._workers.add(worker)
        self._idle.append(worker)
        self._hand_out()


def _spawn(channel: socket.socket) -> subprocess.Popen[bytes]:
    number = channel.fileno()
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "egress.handlers.worker", str(number), str(os.getpid())],
        pass_fds=(number,),
        env=_ENVIRONMENT,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _reply_to(ticket: bytes, data: bytes) -> Reply:
    reply = msgspec.msgpack.decode(data, type=Reply)
    if reply.ticket != ticket:
        raise WorkerLostError("whose answer it is cannot be told")
    return reply


def _message(call: HandlerCall, request: Request) -> CallMessage:
    identity = call.identity
    return CallMessage(
        secrets.token_bytes(_TICKET_BYTES),
        call.use.name,
        request.method,
        request.scheme,
        request.host,
        request.port,
        request.path,
        request.query,
        request.headers,
        request.body,
        request.is_websocket,
        identity.sandbox,
        identity.profile,
        call.use.params,
        call.rule,
        call.secrets,
        dict(call.facts),
        dict(identity.parameters),
    )
