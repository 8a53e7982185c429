"""The authorities kept on this machine: there, their owner's alone, whole, and valid for long enough.

What a key file has to be is checked where the proxy reads it. Nothing is made here: that is for the start.
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
from egress.doctor.proxy_setup import ProxySetup
from egress.errors import EgressError

EXPIRY_WARNING: Final = 30 * DAY_SECONDS


def usable_authority(patient: ProxySetup) -> Authority | None:
    """The authority of the sandbox; None where there is none that a proxy would start with."""
    store = _store(patient)
    try:
        return _opened(patient, store) if store.has(patient.values.sandbox) else None
    except EgressError:
        return None


def check(patient: ProxySetup) -> Iterator[Diagnosis]:
    """Look at the authority of the sandbox, then for trouble with those of other sandboxes."""
    store, name = _store(patient), patient.values.sandbox
    try:
        if store.has(name):
            yield from _judged(patient, _opened(patient, store))
        else:
            yield note(name, f"none yet: the first start makes it, in {store.directory}")
    except EgressError as error:
        yield from_error(name, error)
    for other in store.names():
        if other == name:
            continue
        try:
            store.load(other)
        except EgressError as error:
            yield from_error(other, error)


def _store(patient: ProxySetup) -> AuthorityStore:
    return AuthorityStore(patient.values.state_dir / "ca")


def _opened(patient: ProxySetup, store: AuthorityStore) -> Authority:
    """What the start of a proxy does; nothing is made, because it is there."""
    values, policy = patient.values, patient.policy
    constraints = Constraints.for_policy(policy, values.profile) if values.ca_constrain and policy else None
    return store.open(
        values.sandbox, patient.clock.now(), constraints, rules=values.rules, profile=values.profile
    )


def _judged(patient: ProxySetup, authority: Authority) -> Iterator[Diagnosis]:
    values, path = patient.values, _store(patient).path(authority.name)
    limits = authority.constraints
    cure = rotate_command(path, constrain=limits is not None, rules=values.rules, profile=values.profile)
    left = authority.not_after - patient.clock.now()
    mode = f"{path.stat().st_mode & 0o777:04o}"
    if left < EXPIRY_WARNING:
        yield warning(
            authority.name,
            f"it ends in {left // DAY_SECONDS} days, and everything that trusts it stops working then",
            f"`{cure}`, start the proxy again, and give clients the new certificate",
        )
    else:
        yield ok(
            authority.name,
            f"valid for {left // DAY_SECONDS} days more; key and certificate fit, and are yours "
            f"alone (mode {mode})",
        )
    if limits is not None and patient.policy is not None:
        missing = limits.missing_entries(patient.policy, values.profile)
        if missing:
            yield warning(
                authority.name,
                f"it may not sign for {list_some(list(missing))}, which the rules open",
                f"`{cure}`, start the proxy again, and give clients the new certificate",
            )
