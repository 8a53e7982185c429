"""From a destination to a connected socket: resolve, check and dial are one act.

The name is asked for once. Every address of the answer is judged, and one that is refused refuses them
all: a name that mixes public and private addresses is what a rebinding attack looks like, and which of
them a later request would take is left to chance. Then exactly the judged addresses are dialled, as
numbers: from here on nobody resolves anything again.

Several addresses are tried as RFC 8305 says: families in turn, the next one when the last has failed or
keeps silent for a quarter of a second, the first that answers wins.

It must not be asked before the host is allowed: asking a name server is already sending something out.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from egress.address_check import MALFORMED_REASON, OwnNetworks, classify_address
from egress.errors import EgressError
from egress.exchange import Destination
from egress.proxy.clock import Clock
from egress.proxy.lanes.resolve import NameResolver, UnresolvedError
from egress.rules.language.hosts import is_address
from egress.types import HostDecision

STAGGER_SECONDS: Final = 0.25
# A name with very many addresses must not keep a request busy until its deadline.
MAX_ADDRESSES_TRIED: Final = 8
READ_LIMIT: Final = 64 * 1024

# A dead upstream shows within two minutes: 60 s of silence, then four probes 15 s apart.
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class DialError(EgressError):
    """No connection. `code` is one of `errors.CODES`; the message is for the operator only."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, address: str = "", reason: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.address = address
        """The address that was refused; empty where none was, or where it has no canonical spelling."""
        self.reason = reason
        """Why: the name of the range, as `egress.address_check` calls it."""

    def log_fields(self) -> dict[str, str]:
        """Return the facts for the operator."""
        return {"code": self.code, "address": self.address, "reason": self.reason or self.message}


@dataclass(frozen=True, slots=True)
class ConnectedSocket:
    """A socket that is connected to a checked address."""

    socket: socket.socket
    address: str
    resolve_us: int
    connect_us: int


@dataclass(frozen=True, slots=True)
class ConnectedStream:
    """The same as a stream."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    address: str
    resolve_us: int
    connect_us: int


class Dialer:
    """Opens the connections to upstreams: the only thing in the proxy that does."""

    def __init__(
        self,
        resolver: NameResolver,
        own: Callable[[], OwnNetworks],
        clock: Clock,
        *,
        stagger: float = STAGGER_SECONDS,
    ) -> None:
        self._resolver = resolver
        self._own = own
        self._clock = clock
        self._stagger = stagger

    async def dial(
        self, destination: Destination, decision: HostDecision, *, deadline: float, owner: str = ""
    ) -> ConnectedStream:
        """Connect, and return streams; otherwise like `connect`."""
        found = await self.connect(destination, decision, deadline=deadline, owner=owner)
        try:
            reader, writer = await asyncio.open_connection(sock=found.socket, limit=READ_LIMIT)
        except BaseException:
            found.socket.close()
            raise
        return ConnectedStream(reader, writer, found.address, found.resolve_us, found.connect_us)

    async def connect(
        self, destination: Destination, decision: HostDecision, *, deadline: float, owner: str = ""
    ) -> ConnectedSocket:
        """Resolve, check and connect before `deadline`, in seconds of the clock's `monotonic`.

        `owner` is the sandbox it is done for: name servers that do not answer cost it only its own share.
        Raises `DialError`: `upstream.unresolved`, `address.refused`, `upstream.unreachable`,
        `upstream.timeout`; `internal` where the machine's own addresses cannot be read, or where the
        decision is not one that allows.
        """
        # A second gate behind the rules: resolving a denied name would already send it to a name server.
        if not decision.allowed:
            raise DialError("internal", "asked to dial a destination that is not allowed")
        started = self._clock.monotonic()
        try:
            # A single deadline for the whole act: a slow name server leaves less time for connecting.
            async with asyncio.timeout(max(0.0, deadline - started)):
                addresses = await self._addresses(destination.host, owner)
                self.check(destination.host, decision, addresses)
                resolved = self._clock.monotonic()
                winner, address = await self._race(
                    _alternate_families(addresses)[:MAX_ADDRESSES_TRIED], destination.port
                )
        except TimeoutError:
            raise DialError("upstream.timeout", f"{destination.host} did not answer in time") from None
        connected = self._clock.monotonic()
        return ConnectedSocket(
            winner, address, _microseconds(resolved - started), _microseconds(connected - resolved)
        )

    def check(self, host: str, decision: HostDecision, addresses: Sequence[str]) -> None:
        """Refuse all addresses if one of them may not be dialled; raises `DialError`."""
        try:
            # Without the list of own addresses, the machine itself could be dialled: nothing is dialled then.
            own = self._own()
        except OSError:
            raise DialError(
                "internal",
                "the addresses of this machine cannot be read, so nothing is dialled",
                "netlink sockets must be allowed",
            ) from None
        for address in addresses:
            judged = classify_address(address, own, decision.addresses)
            if not judged.allowed:
                raise _refused(host, "" if judged.reason == MALFORMED_REASON else address, judged.reason)

    async def _addresses(self, host: str, owner: str) -> Sequence[str]:
        if is_address(host):
            return (host,)
        try:
            addresses = await self._resolver.resolve(host, owner)
        except UnresolvedError as reason:
            raise DialError(
                "upstream.unresolved", f"{host} cannot be resolved: {reason}", "try `getent ahosts` with it"
            ) from None
        if not addresses:
            raise DialError("upstream.unresolved", f"{host} has no address")
        return addresses

    async def _race(self, addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
        """Return the first socket that connects, with its address; every other one is closed."""
        attempts: dict[asyncio.Task[socket.socket], str] = {}
        winner: asyncio.Task[socket.socket] | None = None
        try:
            for number, address in enumerate(addresses, 1):
                attempts[asyncio.create_task(_connect(address, port))] = address
                is_last = number == len(addresses)
                winner = await _first_success(attempts, None if is_last else self._stagger)
                if winner is not None:
                    return winner.result(), attempts[winner]
        finally:
            # Slower attempts close in the background: the winner does not wait for them.
            _abandon([task for task in attempts if task is not winner])
        raise DialError("upstream.unreachable", f"no address of the host accepts port {port}")


async def _first_success(
    attempts: dict[asyncio.Task[socket.socket], str], patience: float | None
) -> asyncio.Task[socket.socket] | None:
    """Return an attempt that has succeeded; None as soon as the next one should start, or all have failed."""
    pending = {task for task in attempts if not task.done()}
    while pending:
        done, pending = await asyncio.wait(pending, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        winner = next((task for task in done if task.exception() is None), None)
        # With patience, silence or a failure is reason enough to start the next one.
        if winner is not None or patience is not None:
            return winner
    return None


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6
    # With its protocol named: asyncio looks at it before it turns delays off.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        for level, option, value in _KEEPALIVE:
            sock.setsockopt(level, option, value)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _abandon(tasks: list[asyncio.Task[socket.socket]]) -> None:
    """End attempts that nobody needs, and close what they have reached."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_close)


def _close(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _alternate_families(addresses: Sequence[str]) -> list[str]:
    """Return the addresses with families in turn, beginning with that of the first."""
    first = [text for text in addresses if (":" in text) == (":" in addresses[0])]
    second = [text for text in addresses if (":" in text) != (":" in addresses[0])]
    turns: list[str] = []
    for place in range(max(len(first), len(second))):
        turns += first[place : place + 1] + second[place : place + 1]
    return list(dict.fromkeys(turns))


def _refused(host: str, address: str, reason: str) -> DialError:
    where = address or "something that is no address"
    prefix = "128" if ":" in address else "32"
    hint = f"to open it, add `addresses: [{address}/{prefix}]` to the entry of the host" if address else ""
    return DialError(
        "address.refused",
        f"{host} resolves to {where}, which may not be dialled: {reason}",
        hint,
        address=address,
        reason=reason,
    )


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
