"""The name server of a sandbox: every name it may reach is the door, and nothing is ever forwarded.

A name that the rules allow has one address, the one this listener was told to give; any other type of record
has no data, so there is nothing about encrypted hellos or QUIC to be had. Every other name does not exist. No
question leaves this process, so a name that carries data carries it nowhere.

A denied name may be answered in the same way, where a client that follows the answer finds a page with the
reason instead of its host. That question is refused and told all the same.

Who asks is known by the listener, or in a cluster by the address. What is refused is told to `on_refused`,
one call a message, also where it is no question, or no DNS at all: names are the oldest way out of a closed
network. Everything is bounded: bytes, questions a second, connections, time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from egress.errors import CODES
from egress.proxy.clock import Clock
from egress.proxy.dns import wire_format
from egress.proxy.dns.question_rates import QuestionRate, QuestionRates
from egress.proxy.dns.wire_format import DnsFault, DnsQuestion, Rcode
from egress.proxy.event_loop import WatchedSocket, drive, watch
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.shares.turns import ENDLESS_TURN, SandboxTurns, Turn
from egress.types import HostDecision, Identity, Verdict

OnRefused = Callable[[Identity, str, str, HostDecision | None, str], None]
"""Records a refusal: whose, name, code, the decision where the rules were asked, and the client's address.

The name is canonical, or as spelled where it has no such form, and empty where none was read.
"""
Identify = Callable[[str], PeerIdentity]
"""Tells by its address whose a client is."""
Explains = Callable[[str, str, HostDecision], bool]
"""Sandbox, name and denial: whether a TLS client that follows an answer is shown the reason."""

_MAX_DATAGRAMS_PER_TURN: Final = 32
_SHARED_RATE_FACTOR: Final = 20
"""All sandboxes together may ask so many times what one may."""
_NEVER_PUBLIC: Final = frozenset({"arpa", "internal", "invalid", "local", "localhost", "onion"})
"""Top-level names that no public name server answers for."""
_PROBED_NAME: Final = "use-application-dns.net"
"""Firefox sends its questions past this server if this name exists."""
_LENGTH_PREFIX: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class DnsLimits:
    """Limits of a DNS listener."""

    per_second: int = 500
    burst: int = 1000
    connections: int = 32
    questions: int = 100
    """Most questions on one connection."""
    patience: float = 10.0
    """Seconds for each question on a connection to arrive, and for its answer to leave."""


class Responder:
    """Answers DNS messages: a reply, or none, for each. Knows no socket."""

    def __init__(
        self,
        address: IPv4Address,
        policy: Callable[[], Policy],
        clock: Clock,
        on_refused: OnRefused,
        caught: Callable[[str, str], HostDecision | None] = lambda _sandbox, _name: None,
        explains: Explains = lambda _sandbox, _name, _denial: False,
    ) -> None:
        """`caught` gives the denial of a name of a sandbox that no rule is asked about."""
        self._address = address
        self._policy = policy
        self._clock = clock
        self._on_refused = on_refused
        self._caught = caught
        self._explains = explains

    def reply(self, data: bytes, who: PeerIdentity, peer: str = "") -> bytes | None:
        """Answer a message of the client with this address; None for what gets no answer."""
        message = wire_format.read_query(data)
        if message is None:
            self.note(who, "protocol.refused", "", peer)
            return None
        if isinstance(message, DnsFault):
            is_malformed = message.rcode is Rcode.FORMERR
            self.note(who, "request.malformed" if is_malformed else "protocol.refused", message.name, peer)
            return wire_format.encode_fault(message)
        return self._refuse_peer(message, who, peer) if who.code else self._answer(message, who, peer)

    def note(self, who: PeerIdentity, code: str, name: str = "", peer: str = "") -> None:
        """Tell of what was refused without a look at any rule."""
        self._on_refused(who.identity, name, code, None, peer)

    def _refuse_peer(self, question: DnsQuestion, who: PeerIdentity, peer: str) -> bytes:
        """Answer a peer without rights: where that may pass, its client is led to the page that says so."""
        self.note(who, who.code, question.name or question.spelled, peer)
        if not CODES[who.code].retry_after:
            return wire_format.encode_answer(question, Rcode.REFUSED)
        if self._is_explained(who, question, HostDecision(Verdict.DENY, who.code)):
            return self._address_of(question)
        # Resolvers ask again after it, and do not remember that there is no such name.
        return wire_format.encode_answer(question, Rcode.SERVFAIL)

    def _answer(self, question: DnsQuestion, who: PeerIdentity, peer: str) -> bytes:
        name, identity = question.name or question.spelled, who.identity
        caught = self._caught(identity.sandbox, name)
        # A name without a canonical spelling goes to the rules too: they know why it is refused.
        decision = caught or decide_host(self._policy(), identity, question.name, None, self._clock.now())
        if not decision.allowed:
            self._on_refused(identity, name, decision.code, decision, peer)
            if caught or not self._is_explained(who, question, decision):
                return wire_format.encode_answer(question, Rcode.NXDOMAIN)
        return self._address_of(question)

    def _is_explained(self, who: PeerIdentity, question: DnsQuestion, denial: HostDecision) -> bool:
        return is_public_name(question.name) and self._explains(who.identity.sandbox, question.name, denial)

    def _address_of(self, question: DnsQuestion) -> bytes:
        address = self._address if question.kind == wire_format.TYPE_A else None
        return wire_format.encode_answer(question, Rcode.NOERROR, address)


def is_public_name(name: str) -> bool:
    """Tell whether programs expect this name to have an address at all.

    Resolvers try single labels with their search list, labels with `_` name services, `wpad` a file that
    leads browsers to a proxy, and some names are asked for to find out that they do not exist.
    """
    labels = name.split(".")
    is_odd = labels[0] == "wpad" or name == _PROBED_NAME or any(label.startswith("_") for label in labels)
    return len(labels) > 1 and not is_odd and labels[-1] not in _NEVER_PUBLIC


class DnsServer:
    """Serves a responder on sockets that somebody else has opened, and closes them in the end."""

    def __init__(
        self,
        responder: Responder,
        clock: Clock,
        identify: Identify,
        bounds: DnsLimits | None = None,
        turns: SandboxTurns | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        """`turns`: those of the sandbox that asks; None where nobody shares the loop.

        `is_shared`: several sandboxes ask here, so the limits hold for each of them.
        """
        self._responder = responder
        self._identify = identify
        self._turns = turns
        self._watched: WatchedSocket | None = None
        self._bounds = bounds or DnsLimits()
        per_second, burst = self._bounds.per_second, self._bounds.burst
        self._rates = QuestionRates(clock, per_second, burst) if is_shared else None
        factor = _SHARED_RATE_FACTOR if is_shared else 1
        self._budget = QuestionRate(clock, factor * per_second, factor * burst)
        self._udp: socket.socket | None = None
        self._tcp: asyncio.Server | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._open: dict[asyncio.StreamWriter, PeerIdentity] = {}

    async def start(self, udp: socket.socket | None = None, tcp: socket.socket | None = None) -> None:
        """Answer on a bound datagram socket, on a bound stream socket, or on both."""
        if udp is not None:
            udp.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            self._udp = udp
            if self._turns is not None:
                self._watched = watch(udp, self._turns)
            self._listen(udp)
        if tcp is not None:
            self._tcp = await asyncio.start_server(
                self._serve_in_turns, sock=tcp, limit=wire_format.MAX_MESSAGE_BYTES * 2
            )

    async def close(self) -> None:
        """Stop at once; a second call does nothing."""
        if self._pause is not None:
            self._pause.cancel()
        if self._watched is not None:
            self._watched.forget()
        if self._udp is not None:
            asyncio.get_running_loop().remove_reader(self._udp)
            self._udp.close()
            self._udp = None
        if self._tcp is not None:
            self._tcp.close()
            self._tcp = None
        for writer in self._open:
            writer.close()

    def cut(self, is_meant: Callable[[PeerIdentity], bool], code: str) -> None:
        """Close the connections of these peers, and tell of it."""
        for writer, who in list(self._open.items()):
            if is_meant(who):
                self._responder.note(who, code, peer=_peer_of(writer))
                writer.transport.abort()

    # Datagrams ----------------------------------------------------------------------------------

    def _listen(self, udp: socket.socket) -> None:
        # It may have been closed while it waited.
        if self._udp is not None:
            asyncio.get_running_loop().add_reader(udp, self._drain, udp)

    def _drain(self, udp: socket.socket) -> None:
        """Answer what has come, some at a time; a flood waits in the kernel, and is lost there."""
        turns = self._turns
        if turns is None:
            self._answer_some(udp, ENDLESS_TURN)
            return
        turns.enter()
        try:
            if turns.is_over or not self._answer_some(udp, turns):
                asyncio.get_running_loop().remove_reader(udp)
                turns.wait(functools.partial(self._go_on, udp))
        finally:
            turns.leave()

    def _go_on(self, udp: socket.socket) -> None:
        """Answer more in a turn of the sandbox."""
        # It may have been closed while this waited.
        if self._udp is not None and self._turns is not None:
            self._listen(udp)
            self._answer_some(udp, self._turns)

    def _answer_some(self, udp: socket.socket, turn: Turn) -> bool:
        """Answer a few questions, one at least; return whether there was time for them."""
        for _ in range(_MAX_DATAGRAMS_PER_TURN):
            wait = self._budget.wait()
            if wait:
                loop = asyncio.get_running_loop()
                loop.remove_reader(udp)
                self._pause = loop.call_later(wait, self._listen, udp)
                return True
            try:
                # The extra byte reveals messages above the limit.
                data, peer = udp.recvfrom(wire_format.MAX_MESSAGE_BYTES + 1)
            except OSError:
                # No message is left, or an earlier answer could not be delivered.
                return True
            self._budget.spend()
            who = self._identify(str(peer[0]))
            if self._rates is not None and not self._rates.spend(who.identity.sandbox):
                # Lost, as a datagram may be: to wait here would make every other sandbox wait.
                continue
            reply = self._responder.reply(data, who, str(peer[0]))
            if reply is not None:
                # An answer that does not fit in the kernel's buffer is lost, as datagrams are.
                with contextlib.suppress(OSError):
                    udp.sendto(reply, peer)
            if turn.is_over:
                return False
        return True

    # Streams ------------------------------------------------------------------------------------

    async def _serve_in_turns(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._turns is None:
            await self._serve(reader, writer)
        else:
            await drive(self._turns, functools.partial(self._serve, reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whose the connection is stays as it was found at its beginning.
        who = self._open[writer] = self._identify(_peer_of(writer))
        try:
            if self._count_of(who) <= self._bounds.connections:
                await self._converse(reader, writer, who)
            else:
                self._responder.note(who, "limit.connections", peer=_peer_of(writer))
        except (OSError, TimeoutError):
            # The peer is gone, or does not read.
            return
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _count_of(self, who: PeerIdentity) -> int:
        if self._rates is None:
            return len(self._open)
        return sum(each.identity.sandbox == who.identity.sandbox for each in self._open.values())

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: PeerIdentity
    ) -> None:
        peer, name = _peer_of(writer), who.identity.sandbox
        for number in range(self._bounds.questions):
            data = await self._message(reader, who, peer, is_first=not number)
            if data is None:
                return
            async with asyncio.timeout(self._bounds.patience):
                await asyncio.sleep(self._budget.wait() if self._rates is None else self._rates.wait(name))
                self._budget.spend()
                if self._rates is not None:
                    self._rates.spend(name)
                reply = self._responder.reply(data, who, peer)
                if reply is None:
                    return
                writer.write(_LENGTH_PREFIX.pack(len(reply)) + reply)
                await writer.drain()

    async def _message(
        self, reader: asyncio.StreamReader, who: PeerIdentity, peer: str, *, is_first: bool
    ) -> bytes | None:
        """Return the next message; None where no whole one comes."""
        head = b""
        try:
            async with asyncio.timeout(self._bounds.patience):
                head = await reader.readexactly(_LENGTH_PREFIX.size)
                (length,) = _LENGTH_PREFIX.unpack(head)
                if length <= wire_format.MAX_MESSAGE_BYTES:
                    return await reader.readexactly(length)
            self._responder.note(who, "request.malformed", peer=peer)
        except asyncio.IncompleteReadError as error:
            # A client that leaves between two questions did nothing wrong.
            if head or error.partial:
                self._responder.note(who, "request.malformed", peer=peer)
        except TimeoutError:
            # As is whoever is slow to leave.
            if head or is_first:
                self._responder.note(who, "request.timeout", peer=peer)
        return None


def _peer_of(writer: asyncio.StreamWriter) -> str:
    """Return the IP address of the client; empty if the system does not know it any more."""
    found = writer.get_extra_info("peername")
    return str(found[0]) if found else ""
