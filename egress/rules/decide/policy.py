"""What the rule files say, compiled: the values that `decide` works on.

A `Policy` is immutable for its users. The one thing inside that changes is a bounded cache of
routes, which can be dropped at any moment without changing an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from egress.rules.decide.entry import Entry, Mode, NetworkEntry, Rule
from egress.rules.decide.plan import HostRoute
from egress.rules.language.hosts import HostPattern
from egress.types import Limit, Place, Shape


@dataclass(frozen=True, slots=True)
class Binding:
    """A host pattern and port to which a secret is bound."""

    pattern: HostPattern
    port: int

    def __str__(self) -> str:
        return str(self.pattern) if self.port == 443 else f"{self.pattern}:{self.port}"


@dataclass(frozen=True, slots=True)
class SecretSpec:
    """Where a secret comes from and the only hosts it may go to. Never its value."""

    name: str
    place: Place
    scheme: str
    reference: tuple[str, ...] = field(repr=False)
    bindings: tuple[Binding, ...] = ()
    ttl: int | None = None
    expires: int | None = None

    def is_bound_to(self, host: str, port: int) -> bool:
        return any(binding.port == port and binding.pattern.matches(host) for binding in self.bindings)

    def is_bound_to_all(self, pattern: HostPattern, port: int) -> bool:
        """Whether one binding takes in every host that a pattern names."""
        return any(binding.port == port and binding.pattern.covers(pattern) for binding in self.bindings)


CANARY_VALUE_MARK = "{value}"
"""Stands in the text of a planted file where the value goes."""


@dataclass(frozen=True, slots=True)
class CanarySpec:
    """A planted value that has no use; made for each sandbox, from its key and this name."""

    name: str
    place: Place
    like: Shape
    stop: bool
    """Whoever sends it loses all access."""
    env: str
    """The variable in which it is planted; empty for none."""
    file: str
    """The file in which it is planted, whole or below `~/`; empty for none."""
    text: str
    """What stands in that file, with one `VALUE` in it."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    place: Place
    keys: frozenset[str]
    rules: dict[str, frozenset[str]]
    """By entry key: the allow rules it is narrowed to. Keys not in it keep all of theirs."""


@dataclass(frozen=True, slots=True)
class RuleTest:
    """One line of a `tests:` list, parsed."""

    place: Place
    text: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    profile: str | None
    at: int | None
    websocket: bool
    allowed: bool
    expected: str
    """A rule id, a code, or empty for any."""
    secrets: frozenset[str]
    entry: str | None
    """The entry under which it is written; another one that decides is a failure."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the rules say. `digest` names the texts it was made from."""

    entries: dict[HostPattern, Entry] = field(default_factory=dict)
    networks: tuple[NetworkEntry, ...] = ()
    """Longest prefix first."""
    deny: tuple[Rule, ...] = ()
    secrets: dict[str, SecretSpec] = field(default_factory=dict)
    canaries: tuple[CanarySpec, ...] = ()
    profiles: dict[str, Profile] | None = None
    mode: Mode = "enforce"
    limit: Limit | None = None
    cases: tuple[RuleTest, ...] = ()
    digest: str = ""
    routes: dict[str, HostRoute] = field(default_factory=dict, repr=False, compare=False)
    """The `plan.Route` of hosts that were asked for; `object`, because `plan` builds on this file."""
    shared_routes: dict[tuple[str, ...], HostRoute] = field(default_factory=dict, repr=False, compare=False)
    """The same by what makes a route: hosts of one wildcard share it."""

    @property
    def ports(self) -> frozenset[int]:
        """Every port on which the proxy has to listen."""
        entries = [*self.entries.values(), *(network.entry for network in self.networks)]
        return frozenset().union(*(entry.ports | entry.clear_ports for entry in entries))


EMPTY_POLICY = Policy()
"""No rules at all: everything is denied."""
