"""What must not happen, whatever was tried: each kind of harm, and where it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

from tests.attack.lab import names
from tests.attack.lab.internet import Heeded
from tests.attack.lab.leak_detector import Leak, leaks
from tests.attack.lab.names import CERTIFICATES_GONE_WRONG, Credential
from tests.attack.lab.proxies import Proxy
from tests.attack.lab.quick_leak_scan import QuickLeakScan
from tests.proxy.lab.http1 import Request

Place = tuple[str, int]


class Harm(StrEnum):
    """The kinds. A case names the one that the naive proxy must show."""

    REACHED = "reached"
    """Something was connected to, or sent to, that no rule opens."""
    ASKED = "asked"
    """A name server was asked for a name that no rule opens."""
    SENT = "sent"
    """A host got a request that the rules deny, or one that is not what was asked for."""
    STOLEN = "stolen"
    """A secret reached somebody whom it is not for."""
    CLEAR = "clear"
    """A secret crossed a wire unencrypted."""
    LEAKED = "leaked"
    """The sandbox got a secret to see."""
    LOGGED = "logged"
    """A secret stands in a log, a file, an environment, or an argument."""
    BARE = "bare"
    """A request went out without the credential that it should carry."""
    TAKEN = "taken"
    """The sandbox got at the proxy itself, or at what is another sandbox's."""
    STARVED = "starved"
    """One sandbox took what others need."""
    OPEN = "open"
    """What should have been closed stayed open."""
    FORGED = "forged"
    """The record does not tell what happened."""


class Finding(Exception):  # noqa: N818 - what a case reports, in the words of the trade
    """A property of the proxy that does not hold."""

    def __init__(self, harm: Harm, what: str) -> None:
        super().__init__(f"{harm}: {what}")
        self.harm = harm

    @property
    def unforgivable(self) -> bool:
        """Whether a run in which it happened once has failed; see tests/conftest.py.

        On a machine that is short of everything somebody may have to wait, without any fault of the proxy's.
        """
        return self.harm is not Harm.STARVED


class HarmDoneError(AssertionError):
    """Egress has done harm. A run in which that happened has failed, whatever a repetition says."""

    def __init__(self, where: str, found: Sequence[Finding]) -> None:
        super().__init__(f"{where}: " + "; ".join(map(str, found)))
        self.found = tuple(found)

    @property
    def unforgivable(self) -> bool:
        """As a finding tells."""
        return any(each.unforgivable for each in self.found)


def must_be_none(found: Sequence[Finding], where: str = "after its case") -> None:
    """Raise what was found on Egress."""
    if found:
        raise HarmDoneError(where, found)


def reached(proxy: Proxy, since: int, also: Iterable[Place] = ()) -> Iterator[Finding]:
    """Whatever left the room for where no rule leads, or went back into the room itself."""
    fine = {*names.ALLOWED, *also}
    for opened in proxy.wire.opened[since:]:
        # What the sandbox sent to the proxy, and the answer to a datagram of it.
        is_ours = opened.target in proxy.clients.get(opened.source, ()) or opened.source in proxy.clients.get(
            opened.target, ()
        )
        # Where an answer of its comes late, the kernel says that nobody waits for it any more.
        is_name_server = opened.target == (names.NAME_SERVER, 53) or (
            opened.kind == "1" and opened.target[0] == names.NAME_SERVER
        )
        if not (is_ours or is_name_server or (opened.kind == "tcp" and opened.target in fine)):
            yield Finding(Harm.REACHED, str(opened))


def asked(proxy: Proxy, questions: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Names that were asked for from this room, and belong to nobody who is allowed."""
    for name, source in questions:
        if source in (proxy.room.four, proxy.room.six) and not names.may_be_asked(name):
            yield Finding(Harm.ASKED, f"the name server was asked for {name}")


def stolen(connections: Iterable[Heeded], all_of_them: Iterable[Credential]) -> Iterator[Finding]:
    """Secrets, in any form and any piece, at hosts that they are not for."""
    every = tuple(all_of_them)
    for connection in connections:
        name, is_tls = connection.name, connection.channel.is_tls
        # What a host may have is not looked for at all, which keeps this fast.
        wrong = tuple(each for each in every if not (is_tls and _is_for(each, name)))
        for credential, leak in _held(connection.data, wrong):
            if _is_for(credential, name):
                yield Finding(Harm.CLEAR, f"{leak} went to {name} without TLS")
            else:
                yield Finding(Harm.STOLEN, f"{leak} at {name}")


def mixed_up(requests: Iterable[Request], all_of_them: Iterable[Credential]) -> Iterator[Finding]:
    """Secrets in requests that name another host than the one they went to."""
    every = tuple(all_of_them)
    for request in requests:
        for host in request.headers("host") or ["nobody"]:
            wrong = tuple(each for each in every if not _is_for(each, host.removesuffix(":443")))
            for _, leak in _held(request.raw + request.body, wrong):
                yield Finding(Harm.STOLEN, f"{leak} in a request for {host}")


def _is_for(credential: Credential, name: str) -> bool:
    """Whether a host may have it. One that cannot prove who it is never may, whatever rules say."""
    return name not in CERTIFICATES_GONE_WRONG and any(
        name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in credential.hosts
    )


def clear(
    carried: Iterable[tuple[Place, Place, bytes]], all_of_them: Iterable[Credential]
) -> Iterator[Finding]:
    """Secrets that crossed a wire unencrypted, in whatever form."""
    every = tuple(all_of_them)
    for source, target, data in carried:
        for _, leak in _held(data, every):
            yield Finding(Harm.CLEAR, f"{leak} from {source[0]}:{source[1]} to {target[0]}:{target[1]}")


def _held(data: bytes, wanted: tuple[Credential, ...]) -> Iterator[tuple[Credential, Leak]]:
    """Each credential of which any run is in the data, whatever was done to it; told once."""
    if wanted and _glance(tuple(credential.value for credential in wanted)).suspects(data):
        for credential in wanted:
            for leak in leaks(data, [(credential.name, credential.value)])[:1]:
                yield credential, leak


@lru_cache(maxsize=64)
def _glance(values: tuple[bytes, ...]) -> QuickLeakScan:
    return QuickLeakScan(values)


def leaked(
    received: Iterable[bytes], all_of_them: Iterable[Credential], forgiven: Iterable[str] = ()
) -> Iterator[Finding]:
    """Secrets that the sandbox got to see, in a form that Egress promises to stop."""
    wanted = [(credential.name, credential.value) for credential in all_of_them]
    for data in received:
        for leak in leaks(data, wanted):
            if leak.promised and not set(leak.coats) & set(forgiven):
                yield Finding(Harm.LEAKED, str(leak))


def logged(texts: Iterable[tuple[str, bytes]], all_of_them: Iterable[Credential]) -> Iterator[Finding]:
    """Secrets in what a proxy wrote, whatever it did to them."""
    wanted = [(credential.name, credential.value) for credential in all_of_them]
    for where, data in texts:
        for leak in leaks(data, wanted):
            yield Finding(Harm.LOGGED, f"{leak} in {where}")
