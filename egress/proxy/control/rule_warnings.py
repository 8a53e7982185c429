"""Warnings about valid rules in force that promise more than the proxy can hold.

Each warning goes to the log, at the start and after each reload. It contains names, and never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import structlog

from egress.ca.keyfile import rotate_command
from egress.handlers.opening import unknown_handlers
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.settings import Settings
from egress.rules.decide.decision import decide_host, profile_of
from egress.rules.decide.policy import Policy
from egress.secrets import unresolvable_secrets
from egress.types import Finding, Scrub, Severity

_log = structlog.get_logger(__name__)


def unsignable_hosts(engine: ProxyEngine) -> Mapping[str, tuple[str, ...]]:
    """The hosts that the authority of a sandbox may not sign for, by sandbox, where there are some."""
    found: dict[str, tuple[str, ...]] = {}
    for name, sandbox in engine.sandboxes.items():
        limits = sandbox.authority.constraints
        missing = limits.missing_entries(engine.policy, sandbox.identity) if limits is not None else ()
        if missing:
            found[name] = missing
    return found


def unscrubbed_secrets(policy: Policy) -> frozenset[str]:
    """The secrets that some rule injects without a search for them: there a short one will do."""
    return frozenset(
        item.injection.secret
        for entry in [*policy.entries.values(), *(network.entry for network in policy.networks)]
        if Scrub.OFF in (entry.handling.scrub, *(rule.handling.scrub for rule in entry.allow))
        for item in entry.inject
    )


def log_rule_warnings(engine: ProxyEngine, values: Settings) -> None:
    """Log every warning about the rules in force."""
    # The order is that of the harm: requests that fail first, then settings without an effect.
    for name, hosts in unsignable_hosts(engine).items():
        _log.warning(
            "authority.lacking",
            sandbox=name,
            # A few names show the mistake; all hosts of a large rule set would bury it.
            hosts=", ".join(hosts[:20]),
            hint=_cure_of_authority(engine.sandboxes[name], values),
        )
    for item in unresolvable_secrets(engine.policy.secrets.values(), container=values.container):
        _log.warning(
            "secret.unresolvable", secret=item.name, place=str(item.place), cause=item.cause, cure=item.cure
        )
    for rule, name, place in unknown_handlers(engine.policy, engine.policy.outbound):
        _log.warning(
            "handler.unknown", rule=rule, handler=name, place=str(place), cause="its requests are denied"
        )
    for host in _tunnelled_hosts(engine, dict.fromkeys(pin.host for pin in values.pin)):
        _log.warning(
            "pin.unused",
            host=host,
            cause="the rules carry this host unread, so its keys are not looked at",
            cure="take `intercept: never` away, or the pin",
        )
    for host in _unnamed(engine.policy, dict.fromkeys(override.name for override in values.resolve)):
        _log.warning(
            "resolve.unused",
            host=host,
            cause="no rule names this host, so it is never dialled",
            cure="look for a spelling mistake, or take the --resolve away",
        )
    for name, profile in _without_profile(engine):
        there = ", ".join(sorted(engine.policy.profiles or ()))
        _log.warning(
            "profile.unknown",
            sandbox=name,
            profile=profile,
            cause="the rules have no such profile, so everything is denied to this sandbox",
            cure=f"the profiles are: {there or 'none'}",
        )


def log_findings(findings: Iterable[Finding]) -> None:
    """Say what was found in rules that are used all the same."""
    for finding in findings:
        hint = {"hint": finding.hint} if finding.hint else {}
        if finding.severity is Severity.WARNING:
            _log.warning("rules.warning", place=str(finding.place), problem=finding.message, **hint)
        elif finding.severity is Severity.NOTICE:
            _log.info("rules.notice", place=str(finding.place), notice=finding.message, **hint)


def _cure_of_authority(sandbox: ServedSandbox, values: Settings) -> str:
    name = sandbox.identity.sandbox
    if name != values.sandbox:
        return "remove this sandbox and add it again: its authority is made for the hosts that the rules name"
    file = values.state_dir / "ca" / f"{name}.pem"
    command = rotate_command(file, constrain=True, rules=values.rules, profile=values.profile)
    return f"make a new one with `{command}`, and start the proxy again"


def _unnamed(policy: Policy, hosts: Iterable[str]) -> list[str]:
    # In observe mode hosts without a rule are dialled, too.
    if policy.mode == "observe":
        return []
    patterns = [entry.pattern for entry in policy.entries.values() if entry.pattern is not None]
    return [host for host in hosts if not any(pattern.matches(host) for pattern in patterns)]


def _without_profile(engine: ProxyEngine) -> Iterator[tuple[str, str]]:
    if engine.policy.profiles is None:
        return
    for name, sandbox in engine.sandboxes.items():
        if profile_of(engine.policy, sandbox.identity, engine.clock.now()) is None:
            yield name, sandbox.identity.profile or "default"


def _tunnelled_hosts(engine: ProxyEngine, hosts: Iterable[str]) -> list[str]:
    """Return the hosts that some sandbox reaches by a tunnel."""
    policy, now = engine.policy, engine.clock.now()
    who = [sandbox.identity for sandbox in engine.sandboxes.values()]
    return [
        host
        for host in hosts
        if any(
            decision.allowed and not decision.intercept
            for identity in who
            for port in policy.ports
            for decision in [decide_host(policy, identity, host, port, now)]
        )
    ]
