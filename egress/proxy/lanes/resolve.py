"""Names to addresses, by the machine's own resolver, without letting it take the proxy down with it.

The system's resolver blocks, cannot be interrupted, and takes half a minute where a name server does not
answer. So every question has a thread of its own, at most so many of them, and a place is free again only
when its thread has really come back. One sandbox gets a share of the places: it may own the name server that
keeps silent. Who gives up waiting leaves the thread to itself, and no thread keeps the process from ending.

A name is asked for as it stands, absolutely: never with a search list behind it, by which one name would
mean another one. What the hosts file of the machine says goes first.

A sandbox's questions for one name that are under way are shared, and a good answer is kept for a few seconds:
a burst of connections then asks once. That is safe because an answer is worth nothing yet: whoever dials
checks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol

from egress.errors import UsageError
from egress.rules.language.hosts import HostError, canonical_wire_host, is_address

HOSTS_FILE: Final = Path("/etc/hosts")
MAX_THREADS: Final = 32
MAX_THREADS_PER_OWNER: Final = 8
MAX_WAITING_PER_OWNER: Final = 128
CACHE_SECONDS: Final = 3.0
MAX_CACHED_NAMES: Final = 1024


class UnresolvedError(Exception):
    """The name has no address, or nobody could be asked."""


class NameResolver(Protocol):
    """The source of addresses."""

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        """Return every address of a canonical name, best first; raises `UnresolvedError`.

        `owner` is the sandbox that the question is asked for.
        """
        ...


class FixedResolver:
    """Answers some names by itself, as the operator said; asks another resolver for the rest."""

    def __init__(self, fixed: Mapping[str, Iterable[str]], others: NameResolver) -> None:
        """Take canonical names and addresses; raises `UsageError` for what is none."""
        self._fixed = {_name(name): tuple(map(_address, found)) for name, found in fixed.items()}
        self._others = others

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        fixed = self._fixed.get(host)
        return await self._others.resolve(host, owner) if fixed is None else fixed


def _name(text: str) -> str:
    try:
        return canonical_wire_host(text)
    except HostError as error:
        raise UsageError(f"a fixed address has no valid host name: {error}", error.hint) from None


def _address(text: str) -> str:
    if not is_address(text):
        raise UsageError("a fixed address is none", "write it like 10.1.2.3 or 2001:db8::1")
    return text


class SystemResolver:
    """Asks the machine. Belongs to one event loop."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        threads: int = MAX_THREADS,
        share: int = MAX_THREADS_PER_OWNER,
        waiting: int = MAX_WAITING_PER_OWNER,
        kept: float = CACHE_SECONDS,
        look_up: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        """Ask with at most `threads` at once, `share` of them for one owner, of whom `waiting` more wait."""
        self._monotonic = monotonic
        self._places = asyncio.Semaphore(threads)
        self._share = share
        self._waiting = waiting
        self._kept = kept
        self._look_up = look_up or look_up_name
        self._answers: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._owners: dict[str, _OwnerQueue] = {}

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        until, answer = self._answers.get(host, (0.0, ()))
        if answer and self._monotonic() < until:
            return answer
        asking = self._owners.setdefault(owner, _OwnerQueue(self._share))
        task = asking.tasks.get(host)
        if task is None:
            if len(asking.tasks) >= self._share + self._waiting:
                raise UnresolvedError("too many names of this sandbox are being looked up")
            task = asyncio.create_task(self._ask(host, owner, asking))
            asking.tasks[host] = task
            task.add_done_callback(_consume_outcome)
        # A caller that gives up must not cancel the answer for the other callers.
        return await asyncio.shield(task)

    async def _ask(self, host: str, owner: str, asking: _OwnerQueue) -> tuple[str, ...]:
        try:
            async with asking.places, self._places:
                answer = await _in_thread(lambda: self._look_up(host))
        finally:
            del asking.tasks[host]
            if not asking.tasks:
                del self._owners[owner]
        self._keep(host, answer)
        return answer

    def _keep(self, host: str, answer: tuple[str, ...]) -> None:
        if len(self._answers) >= MAX_CACHED_NAMES:
            self._answers.clear()
        self._answers[host] = self._monotonic() + self._kept, answer


class _OwnerQueue:
    """The questions of one sandbox, and its share of the places."""

    __slots__ = ("places", "tasks")

    def __init__(self, share: int) -> None:
        self.places = asyncio.Semaphore(share)
        self.tasks: dict[str, asyncio.Task[tuple[str, ...]]] = {}


async def _in_thread(look_up: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Do it in a thread of its own; whatever goes wrong there, the name has no address."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

    def settle(found: tuple[str, ...]) -> None:
        if not answer.done():
            answer.set_result(found)

    def work() -> None:
        found: tuple[str, ...] = ()
        # OSError is the usual one; UnicodeError comes from names that the C library does not like.
        with contextlib.suppress(Exception):
            found = look_up()
        # A loop that has ended meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found)

    try:
        threading.Thread(target=work, name="resolve", daemon=True).start()
    except RuntimeError:
        raise UnresolvedError("this machine has no thread left to ask with") from None
    found = await answer
    if not found:
        raise UnresolvedError("the name has no address")
    return found


def _consume_outcome(task: asyncio.Task[tuple[str, ...]]) -> None:
    """Look at the outcome even if nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


def look_up_name(host: str, hosts_file: Path = HOSTS_FILE) -> tuple[str, ...]:
    """Ask the hosts file, then the system's resolver; blocks. Raises `OSError`."""
    named = from_hosts_file(host, hosts_file)
    if named:
        return named
    # The final dot keeps the search list out.
    infos = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(_spelling(info[4]) for info in infos))


def from_hosts_file(host: str, path: Path) -> tuple[str, ...]:
    """Return the addresses that the hosts file gives a name."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    words = (line.partition("#")[0].lower().split() for line in lines)
    return tuple(dict.fromkeys(_canonical(line[0]) for line in words if host in line[1:]))


def _canonical(text: str) -> str:
    """Return the one spelling of an address; what is none stays as it is, and will be refused."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text


def _spelling(where: tuple[object, ...]) -> str:
    """Return the address of a socket address, with its scope: one that has a scope is never public."""
    text = str(where[0])
    return f"{text}%{where[3]}" if len(where) > 3 and where[3] and "%" not in text else text
