"""The hosts of the rules: whether they resolve, may be dialled, answer, and are who they should be.

Resolving, judging addresses, dialling and verifying is done by what the proxy does it with. Each host is
asked for a TLS handshake, all of them at the same time, and none for longer than a few seconds. Nothing is
sent behind it: no request, and so no credential. A pattern names no host, and is told as not looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from OpenSSL import SSL

from egress.doctor.diagnosis import Diagnosis, fault, from_error, list_some, note, ok
from egress.doctor.handshake import HandshakeError, shake
from egress.doctor.proxy_setup import ProxySetup
from egress.doctor.validity import validity
from egress.errors import CODES, EgressError, reason_of
from egress.exchange import Destination
from egress.proxy.lanes.dial import ConnectedSocket, Dialer, DialError
from egress.proxy.lanes.local_addresses import LocalAddresses
from egress.proxy.lanes.resolve import FixedResolver, NameResolver, SystemResolver
from egress.rules.decide.decision import decide_host
from egress.rules.decide.entry import Entry
from egress.tls.contexts import UpstreamContexts
from egress.tls.pins import Pins
from egress.tls.roots import trusted_roots
from egress.tls.verification import is_verified, verification_failure
from egress.types import HostDecision, Identity

# What came of asking one upstream for its certificate. Values only.
Misfit = Literal["", "early", "late"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One host and port of the rules."""

    diagnosis: Diagnosis
    begins: int | None = None
    """From when to when its certificate is valid, where it was verified."""
    ends: int | None = None
    misfit: Misfit = ""
    """What the clock says of its certificate, where that is the trouble."""


PROBE_TIMEOUT: Final = 5.0
"""Seconds for one host, from its name to the end of its handshake."""
MAX_CONCURRENT_PROBES: Final = 32

_MISFITS: Final[Mapping[str, Misfit]] = {"not yet valid": "early", "has expired": "late"}
"""What OpenSSL says where the clock, or the certificate, is out of its time."""
_PRIVATE: Final = "where it is an authority of your own, name its certificate with `--upstream-ca`"
_CURES: Final = {
    "issuer certificate": _PRIVATE,
    "self-signed": _PRIVATE,
    "self signed": _PRIVATE,
    "not yet valid": "check the clock of this machine; if it is right, tell the operator of the host",
    "has expired": "its operator has to renew it; check the clock of this machine, too",
    "mismatch": "see whether the name leads to the right place: `--resolve`, the hosts file, the name server",
}
_UNREACHABLE: Final = "see whether it is up, and whether a firewall of yours is in the way"


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A host and port of the rules, and what they say about it."""

    destination: Destination
    decision: HostDecision

    @property
    def name(self) -> str:
        return f"{self.destination.host}:{self.destination.port}"


async def probe(patient: ProxySetup, resolver: NameResolver) -> tuple[ProbeResult, ...]:
    """Ask every host that has a name, and say what was not asked for."""
    if patient.policy is None:
        return (ProbeResult(note("upstreams", f"not looked at until {patient.until}")),)
    try:
        upstream = UpstreamContexts(trusted_roots(patient.values.upstream_ca))
    except EgressError as error:
        return (ProbeResult(from_error("upstreams", error)),)
    dialer, places = dialer_of(patient, resolver), asyncio.Semaphore(MAX_CONCURRENT_PROBES)

    async def one(target: ProbeTarget) -> ProbeResult:
        async with places:
            return await _reached(patient, target, dialer, upstream)

    found = await asyncio.gather(*(one(target) for target in targets(patient)))
    return (*found, *(ProbeResult(diagnosis) for diagnosis in _left_out(patient)))


def resolver_of(patient: ProxySetup) -> NameResolver:
    """The resolver of a proxy with these settings."""
    fixed: dict[str, list[str]] = {}
    for override in patient.values.resolve:
        fixed.setdefault(override.name, []).append(str(override.address))
    return FixedResolver(fixed, SystemResolver(patient.clock.monotonic))


def dialer_of(patient: ProxySetup, resolver: NameResolver) -> Dialer:
    """The dialer of a proxy with these settings."""
    extra = [str(network) for network in patient.values.own_address]
    return Dialer(resolver, LocalAddresses(patient.clock.monotonic, extra), patient.clock)


def targets(patient: ProxySetup) -> Iterator[ProbeTarget]:
    """Every host with a name that the rules open for the sandbox, with each of its ports."""
    for entry, host in _named(patient):
        for scheme, ports in (("https", entry.ports), ("http", entry.clear_ports)):
            for port in sorted(ports):
                decision = _decided(patient, host, port, scheme)
                if decision.allowed:
                    yield ProbeTarget(
                        Destination("https" if scheme == "https" else "http", host, port), decision
                    )


# What is not looked at ----------------------------------------------------------------------------


def _named(patient: ProxySetup) -> Iterator[tuple[Entry, str]]:
    for pattern, entry in patient.policy.entries.items() if patient.policy else ():
        if not pattern.stars:
            yield entry, pattern.suffix


def _left_out(patient: ProxySetup) -> Iterator[Diagnosis]:
    policy = patient.policy
    patterns = [str(pattern) for pattern in policy.entries if pattern.stars] if policy else []
    networks = [str(item.network) for item in policy.networks] if policy else []
    if patterns:
        yield note("patterns", f"not checkable, because they name no host: {list_some(patterns)}")
    if networks:
        yield note("networks", f"not checkable, because they name no address: {list_some(networks)}")
    for entry, host in _named(patient):
        for port in sorted(entry.ports):
            decision = _decided(patient, host, port, "https")
            if not decision.allowed:
                why = CODES[decision.code].message if decision.code in CODES else decision.code
                # A sentence for the sandbox, as a part of one here.
                yield note(f"{host}:{port}", f"not looked at: {why[:1].lower()}{why[1:].rstrip('.')}")


def _decided(patient: ProxySetup, host: str, port: int, scheme: str) -> HostDecision:
    if patient.policy is None:
        raise ValueError("there are no rules to decide by")
    identity = Identity(patient.values.sandbox, patient.values.profile)
    return decide_host(patient.policy, identity, host, port, patient.clock.now(), scheme=scheme)


# One host -----------------------------------------------------------------------------------------


async def _reached(
    patient: ProxySetup, target: ProbeTarget, dialer: Dialer, upstream: UpstreamContexts
) -> ProbeResult:
    end = patient.clock.monotonic() + PROBE_TIMEOUT
    try:
        connected = await dialer.connect(target.destination, target.decision, deadline=end)
    except DialError as error:
        return ProbeResult(from_error(target.name, error, fix=_UNREACHABLE))
    with connected.socket:
        if target.destination.scheme == "http":
            return ProbeResult(ok(target.name, f"answers in the clear at {connected.address}"))
        if not target.decision.intercept:
            return ProbeResult(
                ok(target.name, f"answers at {connected.address}; clients verify it themselves")
            )
        try:
            async with asyncio.timeout(max(0.0, end - patient.clock.monotonic())):
                return await _proven(patient, target, connected, upstream)
        except TimeoutError:
            fact = f"connects at {connected.address}, and has not shaken hands within {PROBE_TIMEOUT:g} s"
            return ProbeResult(fault(target.name, fact, _UNREACHABLE))


async def _proven(
    patient: ProxySetup, target: ProbeTarget, connected: ConnectedSocket, upstream: UpstreamContexts
) -> ProbeResult:
    keys = frozenset(pin.key for pin in patient.values.pin if pin.host == target.destination.host)
    pins = Pins(keys) if keys else None
    tls = upstream.connecting(target.destination.host, _alpn(target), pins)
    try:
        await shake(connected.socket, tls)
    except HandshakeError as error:
        return _refused(target, tls, pins, str(error))
    except OSError as error:
        return ProbeResult(
            fault(target.name, f"the connection broke in the TLS handshake: {reason_of(error)}", _UNREACHABLE)
        )
    certificate = tls.get_peer_certificate()
    if certificate is None or not is_verified(tls):
        return ProbeResult(fault(target.name, "the upstream was not verified", "report this"))
    begins, ends = validity(certificate)
    held = ", by a key that is pinned" if pins else ""
    return ProbeResult(
        ok(target.name, f"verified at {connected.address} with {tls.get_protocol_version_name()}{held}"),
        begins=begins,
        ends=ends,
    )


def _alpn(target: ProbeTarget) -> tuple[bytes, ...]:
    return (b"h2", b"http/1.1") if target.decision.http2 else (b"http/1.1",)


def _refused(target: ProbeTarget, tls: SSL.Connection, pins: Pins | None, why: str) -> ProbeResult:
    """Why a handshake did not come about, in words of OpenSSL where it did not trust, else in ours."""
    if pins is not None and pins.failed:
        fact = "no key in the verified chain of the upstream is pinned for it"
        return ProbeResult(fault(target.name, fact, "find out why it changed, then give its new `--pin`"))
    reason = verification_failure(tls)
    if not reason:
        return ProbeResult(
            fault(target.name, why, "see which versions of TLS it speaks: 1.2 and 1.3 are spoken here")
        )
    misfit: Misfit = next((word for text, word in _MISFITS.items() if text in reason), "")
    fix = next((cure for text, cure in _CURES.items() if text in reason), "its operator has to put it right")
    return ProbeResult(fault(target.name, f"not who it should be: {reason}", fix), misfit=misfit)
