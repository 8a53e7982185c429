"""Check the authorities on this machine: present, private, intact, and valid for long enough.

The rules for a key file are checked by the code of the proxy. Nothing is created: that is up to the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS
from egress.ca.keyfile import rotate_command
from egress.ca.store import AuthorityStore
from egress.doctor.diagnosis import Diagnosis, from_error, list_some, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError
from egress.proxy.settings import Settings
from egress.types import Identity

EXPIRY_WARNING: Final = 30 * DAY_SECONDS


def usable_authority(setup: ProxyUnderCheck) -> Authority | None:
    """Return the authority of the sandbox; None if a proxy would not start with it."""
    store, mounted = _store(setup), setup.values.authority_file
    try:
        if mounted is not None:
            return Authority.load_mounted(mounted, setup.clock.now())
        # Opening would create a missing authority, so ask first.
        return _opened(setup, store) if store.has(setup.values.sandbox) else None
    except EgressError:
        return None


def check(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    """Check the authority of the sandbox, then look for trouble with those of other sandboxes."""
    store, name, mounted = _store(setup), setup.values.sandbox, setup.values.authority_file
    try:
        if mounted is not None:
            yield _judged_mounted(Authority.load_mounted(mounted, setup.clock.now()), setup.clock.now())
        elif store.has(name):
            yield from _judged(setup, _opened(setup, store))
        else:
            yield note(name, f"none yet: the first start creates it in {store.directory}")
    except EgressError as error:
        yield from_error(name, error)
    # Loaded and not opened: the settings of the other sandboxes are unknown here.
    for other in store.names():
        if other == name:
            continue
        try:
            store.load(other)
        except EgressError as error:
            yield from_error(other, error)


def _judged_mounted(authority: Authority, now: int) -> Diagnosis:
    left = (authority.not_after - now) // DAY_SECONDS
    if left * DAY_SECONDS < EXPIRY_WARNING:
        return warning(
            authority.name,
            f"expires in {left} days; clients that trust it will then fail",
            "take it out of its secret, delete the ConfigMap of its certificate, run `egress k8s ca`, "
            "and restart the replicas and the sandboxes",
        )
    return ok(authority.name, f"valid for {left} more days; key and certificate match")


def _store(setup: ProxyUnderCheck) -> AuthorityStore:
    return AuthorityStore(setup.values.state_dir / "ca")


def _opened(setup: ProxyUnderCheck, store: AuthorityStore) -> Authority:
    """Open the authority like the start of a proxy; it exists, so nothing is created."""
    values, policy = setup.values, setup.policy
    constraints = (
        Constraints.for_policy(policy, _identity(values)) if values.ca_constrain and policy else None
    )
    return store.open(
        values.sandbox, setup.clock.now(), constraints, rules=values.rules, profile=values.profile
    )


def _identity(values: Settings) -> Identity:
    return Identity(values.sandbox, values.profile)


def _judged(setup: ProxyUnderCheck, authority: Authority) -> Iterator[Diagnosis]:
    values, path = setup.values, _store(setup).path(authority.name)
    limits = authority.constraints
    cure = rotate_command(path, constrain=limits is not None, rules=values.rules, profile=values.profile)
    left = authority.not_after - setup.clock.now()
    mode = f"{path.stat().st_mode & 0o777:04o}"
    if left < EXPIRY_WARNING:
        yield warning(
            authority.name,
            f"expires in {left // DAY_SECONDS} days; clients that trust it will then fail",
            f"`{cure}`, restart the proxy, and give clients the new certificate",
        )
    else:
        yield ok(
            authority.name,
            f"valid for {left // DAY_SECONDS} more days; key and certificate match, readable only "
            f"by you (mode {mode})",
        )
    # Constraints are fixed at creation, while rules change.
    if limits is not None and setup.policy is not None:
        missing = limits.missing_entries(setup.policy, _identity(values))
        if missing:
            yield warning(
                authority.name,
                f"its constraints exclude {list_some(list(missing))}, which the rules open",
                f"`{cure}`, restart the proxy, and give clients the new certificate",
            )
