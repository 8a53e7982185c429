"""The fence of a pod: proof, from inside, that its network leads to the proxy and nowhere else.

A network policy comes into force some time after a pod starts, and a second policy can open what the first
one closed. So the proof dials the addresses that must not answer, several times in a row, before anything
else of the pod runs. An open network answers within milliseconds, from the kernel of whoever is dialled, so
half a second of silence is a refusal. A name is never resolved here: looking one up could itself leave the
pod.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from egress.doctor.gateway_question import ask_gateway
from egress.errors import ContentError, UnreadableError, UsageError, reason_of

MAX_ADDRESSES: Final = 64
_DNS_PORT: Final = 53
_PEM_BEGINNING: Final = b"-----BEGIN CERTIFICATE-----"
_MAX_TRUST_BYTES: Final = 4 * 1024 * 1024
_OWN_FAULTS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
)
"""Faults of this pod. They say nothing about the network, so they prove no fence."""
_QUESTION: Final = (
    # A query for the addresses of `kubernetes.default.svc.cluster.local`, which every cluster's DNS answers.
    b"\x45\x47\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01"
)


@dataclass(frozen=True, slots=True)
class FenceAddress:
    """An IP address and port that the gate dials."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FencePlan:
    """The addresses that must refuse, the addresses of the proxy that must answer, and how often."""

    blocked: tuple[FenceAddress, ...]
    proxy: tuple[FenceAddress, ...]
    gateway: FenceAddress | None = None
    """The address at which the gateway is asked for the pod; one of those of the proxy."""
    uid: str = ""
    """The UID of the pod, which the gateway has to know at this address."""
    trust: tuple[Path, ...] = ()
    """Certificates that have to be there."""
    passes: int = 3
    """Rounds in a row without a fault."""
    interval: float = 0.1
    """Seconds between the beginnings of two rounds."""
    silence: float = 0.5
    """Seconds of silence after which a blocked address counts as refused."""
    dial_timeout: float = 1.0
    """Seconds that the proxy has to answer."""
    timeout: float = 60.0
    """Seconds after which the gate gives up."""


type Dial = Callable[[FenceAddress, float], Awaitable[bool]]
"""Says whether an address answered within so many seconds."""


def read_address(text: str) -> FenceAddress:
    """Read `ADDRESS:PORT`; an IPv6 address stands in brackets. Raises `UsageError`."""
    host, colon, port = text.rpartition(":")
    wrong = UsageError(
        f"`{text[:100]}` is not an address and a port",
        "write an IP address and a port, such as 10.96.0.1:443 or [fd00::1]:443; names are not resolved here",
    )
    has_brackets = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host[1:-1] if has_brackets else host)
    except ValueError:
        raise wrong from None
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not is_number or not 0 < int(port) < 2**16 or (address.version == 6) is not has_brackets:
        raise wrong
    return FenceAddress(str(address), int(port))


async def prove(plan: FencePlan, note: Callable[[str], None], dial: Dial | None = None) -> None:
    """Return once the fence has held for all rounds in a row; raises `ContentError` if it never does.

    `note` is told the fault of a round whenever it differs from the fault before.
    """
    passed, told = 0, ""
    rounds = _Rounds(plan, dial)
    try:
        async with asyncio.timeout(plan.timeout):
            while passed < plan.passes:
                fault = await rounds.next_fault(plan.passes - passed)
                passed = 0 if fault else passed + 1
                if fault not in {"", told}:
                    note(fault)
                told = fault
    except TimeoutError:
        raise ContentError(
            f"the fence does not hold after {plan.timeout:g} seconds: {told or 'too few rounds passed'}",
            "network policies add up, so look for another one that selects this pod: "
            "`kubectl get networkpolicy --all-namespaces`",
        ) from None
    finally:
        await rounds.close()


class _Rounds:
    """Rounds that begin one after the other, and overlap.

    A fence that drops packets is known by silence alone, and the silence of one round need not be over when
    the next begins.
    """

    def __init__(self, plan: FencePlan, dial: Dial | None) -> None:
        self._plan = plan
        self._dial = dial
        self._begun: deque[asyncio.Task[str]] = deque()
        self._latest = -math.inf

    async def next_fault(self, wanted: int) -> str:
        """Return what is wrong in the oldest round, while so many as are `wanted` are under way."""
        loop = asyncio.get_running_loop()
        while len(self._begun) < wanted:
            self._latest = max(loop.time(), self._latest + self._plan.interval)
            self._begun.append(loop.create_task(self._round(self._latest)))
        fault = await self._begun[0]
        self._begun.popleft()
        return fault

    async def _round(self, begins: float) -> str:
        await asyncio.sleep(begins - asyncio.get_running_loop().time())
        # All parts in every round: a policy that comes late may also shut the proxy off.
        # No query to the proxy: it would record one refusal more for every pod that starts.
        return await _fault(self._plan, self._dial or answers, self._dial or connects)

    async def close(self) -> None:
        """End the rounds that nobody waits for any more."""
        for task in self._begun:
            task.cancel()
        await asyncio.gather(*self._begun, return_exceptions=True)


async def _fault(plan: FencePlan, dial: Dial, dial_proxy: Dial) -> str:
    """Dial everything at once, and say what is wrong; empty if nothing is."""
    blocked, proxy = await asyncio.gather(
        _dial_all(plan.blocked, plan.silence, dial),
        _dial_all(plan.proxy, plan.dial_timeout, dial_proxy),
    )
    if opened := [str(at) for at, has_answered in zip(plan.blocked, blocked, strict=True) if has_answered]:
        return f"{', '.join(opened)} answered, and must not"
    if silent := [str(at) for at, has_answered in zip(plan.proxy, proxy, strict=True) if not has_answered]:
        return f"the proxy does not answer at {', '.join(silent)}"
    if lacking := [str(path) for path in plan.trust if not _has_certificate(path)]:
        return f"no certificate is in {', '.join(lacking)}"
    if plan.gateway is not None:
        return await ask_gateway(plan.gateway.host, plan.gateway.port, plan.uid, plan.dial_timeout)
    return ""


def _has_certificate(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _PEM_BEGINNING in file.read(_MAX_TRUST_BYTES)
    except OSError:
        return False


async def _dial_all(addresses: Sequence[FenceAddress], seconds: float, dial: Dial) -> list[bool]:
    return await asyncio.gather(*[dial(at, seconds) for at in addresses])


async def answers(at: FenceAddress, seconds: float) -> bool:
    """Say whether an address takes a TCP connection, or on port 53 answers a DNS query by UDP."""
    tries = [connects(at, seconds)]
    if at.port == _DNS_PORT:
        tries.append(_replies(at, seconds))
    return any(await asyncio.gather(*tries))


async def connects(at: FenceAddress, seconds: float) -> bool:
    """Say whether an address takes a TCP connection."""
    return await _try(socket.SOCK_STREAM, at, seconds, lambda _: asyncio.sleep(0))


async def _replies(at: FenceAddress, seconds: float) -> bool:
    loop = asyncio.get_running_loop()

    async def ask(sock: socket.socket) -> None:
        await loop.sock_sendall(sock, _QUESTION)
        # Not read by the loop: an answer that is cut off here stays in the socket, and is found there.
        is_there = asyncio.Event()
        loop.add_reader(sock, is_there.set)
        try:
            await is_there.wait()
        finally:
            loop.remove_reader(sock)
        sock.recv(512)

    return await _try(socket.SOCK_DGRAM, at, seconds, ask)


type Talk = Callable[[socket.socket], Awaitable[object]]


async def _try(kind: socket.SocketKind, at: FenceAddress, seconds: float, talk: Talk) -> bool:
    """Connect and talk; a refusal or silence is no answer.

    Raises `UnreadableError` for a fault of this pod.
    """
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    try:
        with socket.socket(family, kind) as sock:
            sock.settimeout(0)
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.get_running_loop().sock_connect(sock, (at.host, at.port))
                    await talk(sock)
            except TimeoutError:
                # This process may have been stopped while the kernel took the answer.
                return _has_answer(sock)
    except OSError as error:
        if error.errno in _OWN_FAULTS:
            raise UnreadableError(
                f"cannot dial {at}: {reason_of(error)}", "the fence is not proved; give this container more"
            ) from None
        return False
    return True


def _has_answer(sock: socket.socket) -> bool:
    """Say whether the kernel has an answer that was not read. Raises `OSError` if it has none."""
    # Of a stream this is its peer, which it has once it is connected.
    sock.getpeername()
    if sock.type == socket.SOCK_DGRAM:
        sock.recv(1)
    return True
