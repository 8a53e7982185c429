"""What an operator should know about rules that are sound and in force: where they promise more than holds.

Each remark is a warning in the log, at the start and after each reload. It names things, and never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from egress.proxy.engine import Engine
from egress.rules.decide import decide_host
from egress.rules.policy import Policy
from egress.secrets import unresolvable
from egress.types import Scrub

_log = structlog.get_logger(__name__)


def lacking(engine: Engine) -> Mapping[str, tuple[str, ...]]:
    """The hosts that the authority of a sandbox may not sign for, by sandbox, where there are some."""
    found: dict[str, tuple[str, ...]] = {}
    for name, sandbox in engine.sandboxes.items():
        limits = sandbox.authority.constraints
        missing = limits.lacking(engine.policy, sandbox.identity.profile) if limits is not None else ()
        if missing:
            found[name] = missing
    return found


def unscrubbed(policy: Policy) -> frozenset[str]:
    """The secrets that some rule injects without a search for them: there a short one will do."""
    return frozenset(
        item.injection.secret
        for entry in [*policy.entries.values(), *(network.entry for network in policy.networks)]
        if Scrub.OFF in (entry.handling.scrub, *(rule.handling.scrub for rule in entry.allow))
        for item in entry.inject
    )


def say(engine: Engine, pinned: Iterable[str], *, container: bool) -> None:
    """Say all that there is to say."""
    for name, hosts in lacking(engine).items():
        _log.warning(
            "authority.lacking",
            sandbox=name,
            hosts=", ".join(hosts[:20]),
            hint="make a new one with `egress ca rotate --constrain`, and start the proxy again",
        )
    for item in unresolvable(engine.policy.secrets.values(), container=container):
        _log.warning(
            "secret.unresolvable", secret=item.name, place=str(item.place), cause=item.cause, cure=item.cure
        )
    for host in _unread(engine, pinned):
        _log.warning(
            "pin.unused",
            host=host,
            cause="the rules carry this host unread, so its keys are not looked at",
            cure="take `intercept: never` away, or the pin",
        )


def _unread(engine: Engine, hosts: Iterable[str]) -> list[str]:
    """Those of the hosts that some sandbox reaches by a tunnel."""
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
