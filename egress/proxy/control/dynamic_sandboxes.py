"""Sandboxes that come and go while the proxy runs: added by name, with listeners that are handed over.

Each gets an authority, and keys for its stand-ins and its canaries. All exist in memory alone and end with
it, so nothing that one was given is worth anything to another, or to a later one of the same name. Only the
key of its canaries can be handed in: they lie in the sandbox, and a proxy that returns has to know them.

Who may add one is settled by the sockets on which it is asked for. The sandbox of the settings is none of
these: it is not added, not removed, and takes no listeners.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, ip_address
from typing import Final

from egress.addons.tls_hooks import TlsHooks
from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS
from egress.credentials.placeholder import MIN_KEY_BYTES
from egress.errors import UsageError
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.ingress.listener import LISTEN_BACKLOG, Listener
from egress.proxy.ingress.server import IngressServer
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.setting_values import PLAIN_NAME, is_plain_name
from egress.rules.decide.decision import profile_of
from egress.rules.decide.outbound import NO_CHOICE
from egress.rules.decide.parameters import parameter_fault
from egress.types import Identity

MAX_SANDBOXES: Final = 256
"""Sandboxes at a time."""
MAX_LISTENERS: Final = 256
"""Listeners of one sandbox."""
AUTHORITY_LIFETIME: Final = 30 * DAY_SECONDS
"""Lifetime of an authority: a sandbox that lives longer has to be added anew."""
_POLL_INTERVAL: Final = 0.02
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds for connections that were closed to be recorded."""
_REVOKED_CODE: Final = "access.withdrawn"


@dataclass(slots=True)
class _Added:
    """The state of an added sandbox."""

    listeners: list[Listener] = field(default_factory=list)
    is_shut: bool = False
    """Access is revoked: the sandbox gets no listener until it is restored."""
    kept: list[Listener] = field(default_factory=list)
    """The listeners that a revoked sandbox had. Nobody serves them."""


class DynamicSandboxes:
    """The sandboxes that were added while the proxy runs, by name."""

    def __init__(
        self, engine: ProxyEngine, door: IngressServer, names: NameServers, tls: TlsHooks, *, constrain: bool
    ) -> None:
        """`constrain` limits each authority to the hosts that the rules name when it is made."""
        self._engine = engine
        self._door = door
        self._names = names
        self._tls = tls
        self._constrain = constrain
        self._added: dict[str, _Added] = {}
        self._closing: Counter[str] = Counter()
        """Names whose listeners are being closed: who comes in the meantime would lose his."""

    def __contains__(self, name: object) -> bool:
        return name in self._added

    def __iter__(self) -> Iterator[str]:
        return iter(self._added)

    def listeners(self, name: str) -> list[str]:
        """The names of the listeners that a sandbox was handed."""
        added = self._added.get(name)
        return [item.name for item in added.listeners] if added else []

    # Coming and going

    def add(self, identity: Identity, seed: bytes = b"") -> ServedSandbox:
        """Make a sandbox. Raises `UsageError` for a name, a profile or a parameter that cannot be.

        `seed` is what the canaries are made from that it holds already: another proxy gave it.
        """
        self._check(identity)
        name, now, policy = identity.sandbox, self._engine.clock.now(), self._engine.policy
        limits = Constraints.for_policy(policy, identity) if self._constrain else None
        sandbox = ServedSandbox(
            identity,
            Authority.create(name, now, limits, AUTHORITY_LIFETIME),
            secrets.token_bytes(MIN_KEY_BYTES),
            seed or secrets.token_bytes(MIN_KEY_BYTES),
        )
        # State left by an earlier sandbox of this name must not pass to this one.
        self._forget(name)
        added = sandbox.authority.fingerprint
        self._record("sandbox.added", sandbox=name, profile=identity.profile, authority=added)
        self._added[name] = _Added()
        self._engine.sandboxes[name] = sandbox
        return sandbox

    async def remove(self, name: str) -> int:
        """End a sandbox: its listeners, connections, authority, counts; returns how many were cut.

        Raises `UsageError` for one that was not added.
        """
        added = self._added.pop(name, None)
        if added is None:
            raise UsageError("no added sandbox has this name", "look at GET /status")
        # First: what is at the door meanwhile belongs to nobody.
        del self._engine.sandboxes[name]
        with self._until_closed(name):
            await self._close_listeners(name)
            _close(added.kept)
            cut = [carried for carried in self._engine.live if carried.admitted.identity.sandbox == name]
            for carried in cut:
                carried.close(_REVOKED_CODE)
            await self._until_gone(name)
            self._forget(name)
            self._record("sandbox.removed", sandbox=name, connections=len(cut))
        return len(cut)

    @contextmanager
    def _until_closed(self, name: str) -> Iterator[None]:
        """Let nobody come under this name until all is over that goes by it."""
        self._closing[name] += 1
        try:
            yield
        finally:
            self._closing[name] -= 1
            if not self._closing[name]:
                del self._closing[name]

    def _check(self, identity: Identity) -> None:
        name = identity.sandbox
        if not is_plain_name(name):
            raise UsageError("this is not a name for a sandbox", PLAIN_NAME)
        if name in self._engine.sandboxes:
            raise UsageError(
                "there is a sandbox of this name already", "remove it first, or take another name"
            )
        if self._door.connections(name) or self._closing[name]:
            raise UsageError("connections of the last sandbox of this name are still closing", "try again")
        if len(self._added) >= MAX_SANDBOXES:
            raise UsageError(f"there are {MAX_SANDBOXES} sandboxes already", "remove one first")
        self._check_profile(identity)
        if fault := parameter_fault(self._engine.policy, identity.parameters):
            known = ", ".join(sorted(self._engine.policy.parameters)) or "none"
            raise UsageError(fault, f"parameters of the rules: {known}")

    def _check_profile(self, identity: Identity) -> None:
        """Refuse a sandbox that could get nowhere, or that asks for less than the rules can say."""
        policy = self._engine.policy
        if policy.profiles is None:
            if identity.profile is not None:
                raise UsageError("the rules have no profiles", "leave the profile out")
        elif profile_of(policy, identity, self._engine.clock.now()) is None:
            there = ", ".join(sorted(policy.profiles))
            raise UsageError("the rules have no such profile", f"name one of: {there}")

    def _forget(self, name: str) -> None:
        self._engine.set_overlay(name, None)
        self._engine.set_handlers(name, NO_CHOICE)
        self._tls.forget(name)
        self._engine.counts.forget(name)
        self._engine.ledger.forget(name)
        self._engine.turns.forget(name)

    async def _until_gone(self, name: str) -> None:
        end = self._engine.clock.monotonic() + _CLOSE_TIMEOUT
        while self._door.connections(name):
            if self._engine.clock.monotonic() > end:
                return
            await asyncio.sleep(_POLL_INTERVAL)

    # Listeners

    async def adopt(self, listener: Listener) -> None:
        """Serve a listener that was handed over. Raises `UsageError` where that cannot be.

        That of a revoked sandbox is kept until it is restored, and refuses connections.
        """
        added = self._added.get(listener.sandbox)
        if added is None:
            raise UsageError("There is no such sandbox.", "Add it first.")
        if len(added.listeners) + len(added.kept) >= MAX_LISTENERS:
            raise UsageError(f"The sandbox has {MAX_LISTENERS} listeners already.", "Close them first.")
        if added.is_shut:
            _refuse_all(listener)
            added.kept.append(listener)
            return
        # Its owner may hand over what another proxy has shut.
        _listen_again(listener)
        if listener.kind in ("dns-udp", "dns-tcp"):
            await self._names.open(listener, _own_address(listener))
        else:
            await self._door.open(listener)
        added.listeners.append(listener)

    async def release(self, name: str) -> None:
        """Close the listeners of a sandbox; what is inside a lane goes on."""
        added = self._added.get(name)
        if added is None:
            raise UsageError("There is no such sandbox.", "Add it first.")
        _close(added.kept)
        with self._until_closed(name):
            await self._close_listeners(name)

    async def shut(self, name: str) -> None:
        """Serve the listeners of a sandbox no more, and take no other ones for it."""
        added = self._added.get(name)
        if added is not None:
            added.is_shut = True
            # The owner of the sandbox is not told, and would not hand them over again after `reopen`.
            added.kept += [replace(each, sock=each.sock.dup()) for each in added.listeners]
            for each in added.kept:
                _refuse_all(each)
            with self._until_closed(name):
                await self._close_listeners(name)

    async def reopen(self, name: str) -> None:
        """Serve the listeners again that a sandbox had, and take others."""
        added = self._added.get(name)
        if added is None:
            return
        added.is_shut = False
        while added.kept:
            listener = added.kept.pop()
            try:
                await self.adopt(listener)
            except BaseException:
                listener.sock.close()
                raise

    def kept_listeners(self) -> Iterator[Listener]:
        """The listeners of revoked sandboxes."""
        return (listener for added in self._added.values() for listener in added.kept)

    async def _close_listeners(self, name: str) -> None:
        if name in self._added:
            self._added[name].listeners.clear()
        await self._door.close_sandbox(name)
        await self._names.close_sandbox(name)

    def _record(self, kind: str, **facts: str | int | None) -> None:
        self._engine.audit.event(kind, **facts, policy=self._engine.policy.digest)
        self._engine.audit.flush()


def _refuse_all(listener: Listener) -> None:
    """Let nobody connect, although the owner of the sandbox has the socket too."""
    with suppress(OSError):
        listener.sock.shutdown(socket.SHUT_RD)


def _listen_again(listener: Listener) -> None:
    """Undo the shutdown of a listening socket, at the same port. Raises `UsageError` if that is taken."""
    if listener.kind == "dns-udp":
        return
    at = listener.sock.getsockname()
    # A port that the kernel chose was given up.
    with suppress(OSError):
        listener.sock.bind(at)
    try:
        listener.sock.listen(LISTEN_BACKLOG)
    except OSError:
        raise UsageError("The port of a listener is taken.", "Hand over another one.") from None
    if listener.sock.getsockname() != at:
        raise UsageError("The port of a listener is taken.", "Hand over another one.")


def _close(listeners: list[Listener]) -> None:
    while listeners:
        listeners.pop().sock.close()


def _own_address(listener: Listener) -> IPv4Address:
    """Return the address of the listener: the ingress answers names with its own address."""
    address = ip_address(listener.sock.getsockname()[0])
    if not isinstance(address, IPv4Address) or address.is_unspecified:
        raise UsageError(
            "The socket names no IPv4 address to answer with.",
            "Bind it to the address that names are to have.",
        )
    return address
