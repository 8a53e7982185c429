"""Check the hosts of the rules: whether they resolve, may be dialled, answer, and are verified.

Resolving, checking addresses, dialling and verifying use the code of the proxy. Each host gets a TLS
handshake, all concurrently, for a few seconds at most. No request is sent, and so no credential. A pattern
names no host, and is reported as not checkable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from OpenSSL import SSL

from egress.doctor.diagnosis import Diagnosis, fault, from_error, list_some, note, ok
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.upstream_handshake import HandshakeError, shake
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

Misfit = Literal["", "early", "late"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result for one host and port of the rules."""

    diagnosis: Diagnosis
    begins: int | None = None
    """Validity of its certificate, if it was verified."""
    ends: int | None = None
    misfit: Misfit = ""
    """Whether its certificate seems not yet or no longer valid."""


PROBE_TIMEOUT: Final = 5.0
"""Seconds for one host, from resolving its name to the end of its handshake."""
MAX_CONCURRENT_PROBES: Final = 32

_MISFITS: Final[Mapping[str, Misfit]] = {"not yet valid": "early", "has expired": "late"}
"""OpenSSL's words for a clock, or a certificate, out of its time."""
_PRIVATE: Final = "for your own authority, name its certificate with `--upstream-ca`"
_CURES: Final = {
    "issuer certificate": _PRIVATE,
    "self-signed": _PRIVATE,
    "self signed": _PRIVATE,
    "not yet valid": "check the clock of this machine; if it is right, tell the operator of the host",
    "has expired": "its operator must renew it; also check the clock of this machine",
    "mismatch": "check that the name leads to the right server: `--resolve`, the hosts file, the name server",
}
_UNREACHABLE: Final = "check whether it is up, and whether a firewall blocks it"


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A host and port of the rules, and the decision on it."""

    destination: Destination
    decision: HostDecision

    @property
    def name(self) -> str:
        return f"{self.destination.host}:{self.destination.port}"


async def probe(setup: ProxyUnderCheck, resolver: NameResolver) -> tuple[ProbeResult, ...]:
    """Probe every host with a name, and report the entries that cannot be probed."""
    if setup.policy is None:
        return (ProbeResult(note("upstreams", f"not checked until {setup.until}")),)
    try:
        upstream = UpstreamContexts(trusted_roots(setup.values.upstream_ca))
    except EgressError as error:
        return (ProbeResult(from_error("upstreams", error)),)
    # Bounded, so that a long rule file does not look like a port scan.
    dialer, places = dialer_of(setup, resolver), asyncio.Semaphore(MAX_CONCURRENT_PROBES)

    async def one(target: ProbeTarget) -> ProbeResult:
        async with places:
            return await _reached(setup, target, dialer, upstream)

    found = await asyncio.gather(*(one(target) for target in targets(setup)))
    return (*found, *(ProbeResult(diagnosis) for diagnosis in _left_out(setup)))


def resolver_of(setup: ProxyUnderCheck) -> NameResolver:
    """Return the resolver of a proxy with these settings."""
    fixed: dict[str, list[str]] = {}
    for override in setup.values.resolve:
        fixed.setdefault(override.name, []).append(str(override.address))
    return FixedResolver(fixed, SystemResolver(setup.clock.monotonic))


def dialer_of(setup: ProxyUnderCheck, resolver: NameResolver) -> Dialer:
    """Return the dialer of a proxy with these settings."""
    extra = [str(network) for network in setup.values.own_address]
    return Dialer(resolver, LocalAddresses(setup.clock.monotonic, extra), setup.clock)


def targets(setup: ProxyUnderCheck) -> Iterator[ProbeTarget]:
    """Yield every named host that the rules open for the sandbox, with each of its ports."""
    for entry, host in _named(setup):
        for scheme, ports in (("https", entry.ports), ("http", entry.clear_ports)):
            for port in sorted(ports):
                decision = _decided(setup, host, port, scheme)
                if decision.allowed:
                    yield ProbeTarget(
                        Destination("https" if scheme == "https" else "http", host, port), decision
                    )


# Entries that are not probed ----------------------------------------------------------------------


def _named(setup: ProxyUnderCheck) -> Iterator[tuple[Entry, str]]:
    for pattern, entry in setup.policy.entries.items() if setup.policy else ():
        if not pattern.stars:
            yield entry, pattern.suffix


def _left_out(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    policy = setup.policy
    patterns = [str(pattern) for pattern in policy.entries if pattern.stars] if policy else []
    networks = [str(item.network) for item in policy.networks] if policy else []
    if patterns:
        yield note("patterns", f"not checkable, they name no host: {list_some(patterns)}")
    if networks:
        yield note("networks", f"not checkable, they name no single address: {list_some(networks)}")
    for entry, host in _named(setup):
        for port in sorted(entry.ports):
            decision = _decided(setup, host, port, "https")
            if not decision.allowed:
                why = CODES[decision.code].message if decision.code in CODES else decision.code
                # The sentence for the sandbox becomes part of a sentence here.
                yield note(f"{host}:{port}", f"not checked: {why[:1].lower()}{why[1:].rstrip('.')}")


def _decided(setup: ProxyUnderCheck, host: str, port: int, scheme: str) -> HostDecision:
    if setup.policy is None:
        raise ValueError("no rules to decide by")
    identity = Identity(setup.values.sandbox, setup.values.profile)
    return decide_host(setup.policy, identity, host, port, setup.clock.now(), scheme=scheme)


# Probing a host -----------------------------------------------------------------------------------------


async def _reached(
    setup: ProxyUnderCheck, target: ProbeTarget, dialer: Dialer, upstream: UpstreamContexts
) -> ProbeResult:
    # A single deadline for all steps: a slow resolver leaves less time for the handshake.
    end = setup.clock.monotonic() + PROBE_TIMEOUT
    try:
        connected = await dialer.connect(target.destination, target.decision, deadline=end)
    except DialError as error:
        return ProbeResult(from_error(target.name, error, fix=_UNREACHABLE))
    with connected.socket:
        # Clear text has no handshake, and a request is more than a probe may send.
        if target.destination.scheme == "http":
            return ProbeResult(ok(target.name, f"answers in clear text at {connected.address}"))
        # A tunnel is never decrypted, so verifying the upstream is up to the client.
        if not target.decision.intercept:
            return ProbeResult(
                ok(target.name, f"answers at {connected.address}; clients verify it themselves")
            )
        try:
            async with asyncio.timeout(max(0.0, end - setup.clock.monotonic())):
                return await _proven(setup, target, connected, upstream)
        except TimeoutError:
            fact = f"connects at {connected.address}, but no TLS handshake within {PROBE_TIMEOUT:g} s"
            return ProbeResult(fault(target.name, fact, _UNREACHABLE))


async def _proven(
    setup: ProxyUnderCheck, target: ProbeTarget, connected: ConnectedSocket, upstream: UpstreamContexts
) -> ProbeResult:
    keys = frozenset(pin.key for pin in setup.values.pin if pin.host == target.destination.host)
    pins = Pins(keys) if keys else None
    tls = upstream.connecting(target.destination.host, _alpn(target), pins)
    try:
        await shake(connected.socket, tls)
    except HandshakeError as error:
        return _refused(target, tls, pins, str(error))
    except OSError as error:
        return ProbeResult(
            fault(
                target.name,
                f"the connection broke during the TLS handshake: {reason_of(error)}",
                _UNREACHABLE,
            )
        )
    # Checked again after the handshake: a library that fails open must not pass as verified.
    certificate = tls.get_peer_certificate()
    if certificate is None or not is_verified(tls):
        return ProbeResult(fault(target.name, "the upstream was not verified", "please report this bug"))
    begins, ends = validity(certificate)
    held = ", by a pinned key" if pins else ""
    return ProbeResult(
        ok(target.name, f"verified at {connected.address} with {tls.get_protocol_version_name()}{held}"),
        begins=begins,
        ends=ends,
    )


def _alpn(target: ProbeTarget) -> tuple[bytes, ...]:
    return (b"h2", b"http/1.1") if target.decision.http2 else (b"http/1.1",)


def _refused(target: ProbeTarget, tls: SSL.Connection, pins: Pins | None, why: str) -> ProbeResult:
    """Describe a failed handshake: in OpenSSL's words if verification failed, else in ours."""
    # Before OpenSSL's reason, which does not mention pins.
    if pins is not None and pins.failed:
        fact = "no key in the verified chain of the upstream is pinned for it"
        return ProbeResult(fault(target.name, fact, "find out why it changed, then pass its new `--pin`"))
    reason = verification_failure(tls)
    if not reason:
        return ProbeResult(fault(target.name, why, "check its TLS version: Egress supports 1.2 and 1.3"))
    misfit: Misfit = next((word for text, word in _MISFITS.items() if text in reason), "")
    fix = next((cure for text, cure in _CURES.items() if text in reason), "its operator has to fix it")
    return ProbeResult(fault(target.name, f"verification failed: {reason}", fix), misfit=misfit)
