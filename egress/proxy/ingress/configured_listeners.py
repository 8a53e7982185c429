"""The listeners of the sandbox that the settings name: opened together, taken away, and brought back.

There are three kinds: the proxy itself, transparent listeners on every port that the rules name, and name
servers. At the start one that cannot be opened is an error, and then none is. When the rules change while the
proxy runs, the transparent ones follow: what cannot be opened then is told, and tried again with the next
reload. Connections inside a lane are not touched by that; the rules alone decide about them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, Protocol

from egress.errors import UnreadableError, reason_of
from egress.proxy.ingress.listener import Authentication, Listener, ListenerKind, listen, listen_udp
from egress.proxy.ingress.port_owner import owner_of_port
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import Settings
from egress.rules.decide.policy import Policy

GATE_PORTS: Final = (443,)
"""The ports at which the gates of pods ask for a gateway, besides that of the proxy and of names."""


class ListenerOpener(Protocol):
    """The ingress, as listeners are opened in it."""

    async def open(self, listener: Listener) -> tuple[str, int]: ...

    async def close_sandbox(self, sandbox: str) -> None: ...

    async def close_listeners(self, listeners: Collection[Listener]) -> None: ...


class DnsOpener(Protocol):
    """The DNS server, as listeners are opened in it."""

    async def open(self, listener: Listener, answer: IPv4Address) -> tuple[str, int]: ...

    async def close_sandbox(self, sandbox: str) -> None: ...


@dataclass(frozen=True, slots=True)
class FailedListener:
    """A transparent listener that the rules ask for and that could not be opened."""

    at: ListenAddress
    reason: str
    hint: str


def authentication_of(values: Settings) -> Authentication:
    """How clients of the configured listeners prove that they are the sandbox."""
    if values.password_file is not None:
        return "password"
    return "network" if values.network else "owner-uid"


def ports_of(policy: Policy) -> frozenset[int]:
    """The ports that transparent listeners are for; the usual two as well, where hosts need no entry."""
    return policy.ports | ({80, 443} if policy.mode == "observe" else set())


class ConfiguredListeners:
    """The open addresses of the sandbox in the settings."""

    def __init__(
        self,
        door: ListenerOpener,
        names: DnsOpener,
        values: Settings,
        password: bytes,
        ports: Callable[[], Iterable[int]],
        gate_ports: Collection[int] = (),
    ) -> None:
        """`password` is the digest of the one that clients have to give, or empty.

        `ports` are those on which transparent listeners are wanted just now. `gate_ports` are served beside
        them where they can be opened, whatever the rules name: where they cannot, gates let no pod start.
        """
        self._door = door
        self._names = names
        self.sandbox = values.sandbox
        self._wanted = values.listen
        self._wanted_names = values.dns
        self._answer = values.answer
        self._at = tuple(str(address) for address in values.transparent)
        self._ports = ports
        self._gate_ports = frozenset(gate_ports)
        self._how = authentication_of(values)
        self._password = password
        self._open: tuple[ListenAddress, ...] = ()
        self._transparent: dict[ListenAddress, Listener] = {}
        self._changing = asyncio.Lock()
        self.failed: tuple[FailedListener, ...] = ()
        """The addresses that could not be opened after the last change of the rules."""

    @property
    def addresses(self) -> Mapping[str, tuple[ListenAddress, ...]]:
        """The open proxy addresses, by sandbox."""
        return {self.sandbox: self._open} if self._open else {}

    @property
    def is_shut(self) -> bool:
        """A proxy listener is wanted, and none is open."""
        return bool(self._wanted) and not self._open

    @property
    def transparent(self) -> tuple[ListenAddress, ...]:
        """The transparent addresses, for clients that know no proxy."""
        return tuple(sorted(self._transparent, key=lambda at: (at.host, at.port)))

    @property
    def names(self) -> tuple[ListenAddress, ...]:
        """The open DNS addresses."""
        return self._wanted_names if self._open else ()

    async def open(self) -> None:
        """Open all; raises `UnreadableError` when one cannot be, and then none is."""
        async with self._changing:
            try:
                opened = [await self._open_proxy(at) for at in self._wanted]
                for at in self._to_open():
                    await self._open_at_start(at)
                named = [await self._open_names(at) for at in self._wanted_names]
            except BaseException:
                await self._close()
                raise
            # A port that the kernel chose stays the same one.
            self._open = self._wanted = tuple(opened)
            self._wanted_names = tuple(named)
            self.failed = ()

    async def follow(self) -> tuple[FailedListener, ...]:
        """Bring the transparent listeners in line with the rules; returns those that cannot be opened."""
        async with self._changing:
            if not self._open:
                # The sandbox is revoked or not open yet: its listeners are opened together.
                return ()
            wanted = frozenset(self._places())
            gone = [at for at in self._transparent if at not in wanted]
            await self._door.close_listeners([self._transparent.pop(at) for at in gone])
            failed = []
            for at in self._to_open():
                try:
                    await self._open_transparent(at, _untold)
                except UnreadableError as error:
                    if at.port in self._ports():
                        failed.append(FailedListener(at, error.message, error.hint))
            self.failed = tuple(failed)
            return self.failed

    async def shut(self, sandbox: str) -> None:
        """Close the listeners of a sandbox, and what came in by them and is in no lane yet."""
        if sandbox != self.sandbox:
            return
        async with self._changing:
            await self._close()

    async def reopen(self, sandbox: str) -> None:
        """Open them again; raises `UnreadableError` when somebody else has one of the ports by now."""
        if sandbox != self.sandbox or self._open:
            return
        try:
            await self.open()
        except UnreadableError as error:
            raise UnreadableError(
                error.message,
                "somebody took it meanwhile: end that, and give the sandbox back again",
            ) from None

    # Inside

    async def _close(self) -> None:
        await self._door.close_sandbox(self.sandbox)
        await self._names.close_sandbox(self.sandbox)
        self._open = ()
        self._transparent.clear()

    def _places(self) -> Iterator[ListenAddress]:
        for host in self._at:
            for port in sorted(self._gate_ports.union(self._ports())):
                yield ListenAddress(host, port)

    def _to_open(self) -> list[ListenAddress]:
        return [at for at in self._places() if at not in self._transparent]

    async def _open_proxy(self, at: ListenAddress) -> ListenAddress:
        sock = _opened(at, listen, "--listen")
        shared = self._how != "owner-uid"
        item = Listener(
            f"proxy {at}", "proxy", self.sandbox, sock, self._how, self._password, is_shared=shared
        )
        return ListenAddress(*await self._door.open(item))

    async def _open_at_start(self, at: ListenAddress) -> None:
        try:
            await self._open_transparent(at)
        except UnreadableError:
            if at.port in self._ports():
                raise

    async def _open_transparent(
        self, at: ListenAddress, who: Callable[[ListenAddress], str] = owner_of_port
    ) -> None:
        sock = _opened(at, listen, "--transparent", who)
        item = Listener(f"transparent {at}", "transparent", self.sandbox, sock, is_shared=True)
        await self._door.open(item)
        self._transparent[at] = item

    async def _open_names(self, at: ListenAddress) -> ListenAddress:
        if self._answer is None:
            raise UnreadableError(f"DNS on {at} lacks an answer", "name an address with --dns-answer")
        tcp = _opened(at, listen, "--dns")
        bound = ListenAddress(*tcp.getsockname()[:2])
        try:
            udp = _opened(bound, listen_udp, "--dns")
        except BaseException:
            tcp.close()
            raise
        pairs: tuple[tuple[ListenerKind, socket.socket], ...] = (("dns-tcp", tcp), ("dns-udp", udp))
        for kind, sock in pairs:
            item = Listener(f"{kind} {bound}", kind, self.sandbox, sock, is_shared=True)
            await self._names.open(item, self._answer)
        return bound


def _untold(_: ListenAddress) -> str:
    # While the proxy serves, nobody waits for a walk through all processes, once for each port.
    return ""


def _opened(
    at: ListenAddress,
    opens: Callable[[str, int], socket.socket],
    flag: str,
    who: Callable[[ListenAddress], str] = owner_of_port,
) -> socket.socket:
    try:
        return opens(at.host, at.port)
    except OSError as error:
        reason = reason_of(error)
        holder = who(at) if error.errno == errno.EADDRINUSE else ""
        by = f", by {holder}" if holder else ""
        raise UnreadableError(f"the proxy cannot listen on {at}: {reason}{by}", _cure(error, flag)) from None


def _cure(error: OSError, flag: str) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return (
                "low ports need a right: give the process CAP_NET_BIND_SERVICE, or lower "
                "net.ipv4.ip_unprivileged_port_start"
            )
        case errno.EADDRNOTAVAIL:
            return f"no interface of this machine has that address; name another {flag}"
        case errno.EADDRINUSE:
            return f"stop the process that listens there, or name another {flag}"
        case _:
            return f"name another {flag}"
