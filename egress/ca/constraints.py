"""Name constraints: the names an authority may sign for, written into its certificate.

Theory of operation. A constraint of X.509 permits a name and everything below it, so an entry for
`api.example.com` also permits `x.api.example.com`: certificates are coarser than rules, and the rules still
decide. Every address is excluded. A certificate cannot grow: if the rules name a host that is not permitted,
the sandbox needs a new authority, and `missing_entries` lists the entries.

Knows names only: decides no request and signs nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cryptography import x509

from egress.rules.decide.entry import Entry
from egress.rules.decide.overlay import Delegation
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import is_address
from egress.types import Identity

IMPOSSIBLE_NAME = "invalid"
"""Permitted if no other name is: a name that never exists, since an empty list permits everything."""

OBSERVE_MODE_KEY = "mode: observe"


@dataclass(frozen=True, slots=True)
class Constraints:
    """The names an authority can sign for, each with all names below it; sorted, and disjoint."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> Constraints:
        """Permit `names` and all names below them."""
        kept: list[str] = []
        # Shortest first: a name below a kept name adds nothing.
        for name in sorted(set(names), key=lambda name: (name.count("."), name)):
            if not any(_is_within(name, other) for other in kept):
                kept.append(name)
        return cls(tuple(sorted(kept)))

    @classmethod
    def for_policy(cls, policy: Policy, identity: Identity) -> Constraints:
        """Permit the names whose TLS the rules open for a sandbox, or let others open for it."""
        # A constraint has no wildcards, so `*.suffix` permits the suffix and all names below it.
        entries = _intercepted(policy, identity)
        granted = [pattern.suffix for each in _allowing(policy, identity) for pattern in each.hosts]
        return cls.of([*granted, *(entry.pattern.suffix for entry in entries if entry.pattern is not None)])

    @classmethod
    def read(cls, certificate: x509.Certificate) -> Constraints | None:
        """Return the constraints of a certificate; None if it has none."""
        try:
            found = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        except x509.ExtensionNotFound:
            return None
        names = [name.value for name in found.permitted_subtrees or () if isinstance(name, x509.DNSName)]
        return cls(tuple(sorted(name for name in names if name != IMPOSSIBLE_NAME)))

    def permits(self, host: str) -> bool:
        """Report whether a certificate for this host would be valid."""
        return not is_address(host) and any(_is_within(host, name) for name in self.names)

    def missing_entries(self, policy: Policy, identity: Identity) -> tuple[str, ...]:
        """Return the keys of entries, and delegated hosts, that the constraints exclude."""
        missing = [
            entry.key
            for entry in _intercepted(policy, identity)
            if entry.pattern is None or not self.permits(entry.pattern.suffix)
        ]
        missing += [
            str(pattern)
            for each in _allowing(policy, identity)
            for pattern in each.hosts
            if not self.permits(pattern.suffix)
        ]
        return (*missing, OBSERVE_MODE_KEY) if policy.mode == "observe" else tuple(missing)

    def extension(self) -> x509.NameConstraints:
        """Return the extension for the certificate of the authority; it must be marked critical."""
        # Addresses are excluded as a whole: a list of permitted names restricts only names (RFC 5280).
        every = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
        return x509.NameConstraints(
            permitted_subtrees=[x509.DNSName(name) for name in self.names or (IMPOSSIBLE_NAME,)],
            excluded_subtrees=[x509.IPAddress(network) for network in every],
        )


def _is_within(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")


def _allowing(policy: Policy, identity: Identity) -> Iterator[Delegation]:
    """Yield the delegations by which hosts can be allowed to a sandbox."""
    return (each for each in policy.delegations if "allow" in each.kinds and each.is_for(identity))


def _intercepted(policy: Policy, identity: Identity) -> Iterator[Entry]:
    """Yield the entries for which this proxy presents its own certificates."""
    keys: frozenset[str] | None = None
    if policy.profiles is not None:
        # An unknown profile opens no entry, as in the decision about a request.
        names = {identity.profile or "default"}
        names.update(*(each.profiles for each in policy.delegations if each.is_for(identity)))
        keys = frozenset().union(*(policy.profiles[name].keys for name in names if name in policy.profiles))
    for entry in (*policy.entries.values(), *(network.entry for network in policy.networks)):
        if entry.intercept and entry.ports and (keys is None or entry.key in keys):
            yield entry
