"""Compiled rule files: the values that `decide` works on.

A `Policy` is immutable for its users. The only part that changes is a bounded cache of routes, which can
be dropped at any moment without changing an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from egress.rules.decide.budget_spec import BudgetSpec
from egress.rules.decide.entry import Entry, Mode, NetworkEntry, Rule
from egress.rules.decide.host_route import HostRoute
from egress.rules.decide.outbound import NO_OUTBOUND, Outbound
from egress.rules.decide.overlay import Delegation, Overlay
from egress.rules.decide.price_table import NO_PRICES, PriceTable
from egress.rules.language.hosts import HostPattern
from egress.rules.language.value_pattern import ValuePattern
from egress.types import Limit, Parameters, Place, Shape


@dataclass(frozen=True, slots=True)
class Binding:
    """A host pattern and port to which a secret is bound."""

    pattern: HostPattern
    port: int

    def __str__(self) -> str:
        return str(self.pattern) if self.port == 443 else f"{self.pattern}:{self.port}"


@dataclass(frozen=True, slots=True)
class SecretSpec:
    """The source of a secret and the only hosts it may be sent to; never its value."""

    name: str
    place: Place
    scheme: str
    # Hidden in logs: a reference can reveal paths and account names.
    reference: tuple[str, ...] = field(repr=False)
    bindings: tuple[Binding, ...] = ()
    ttl: int | None = None
    expires: int | None = None

    def is_bound_to(self, host: str, port: int) -> bool:
        return any(binding.port == port and binding.pattern.matches(host) for binding in self.bindings)

    def is_bound_to_all(self, pattern: HostPattern, port: int) -> bool:
        """Report whether a single binding covers every host of a pattern."""
        return any(binding.port == port and binding.pattern.covers(pattern) for binding in self.bindings)


CANARY_VALUE_MARK = "{value}"
"""Placeholder in the text of a planted file, replaced by the canary's value."""


@dataclass(frozen=True, slots=True)
class CanarySpec:
    """A planted value without any use; derived for each sandbox from its key and this name."""

    name: str
    place: Place
    like: Shape
    stop: bool
    """Revoke a sandbox that sends the value."""
    env: str
    """The variable in which the value is planted; empty for none."""
    file: str
    """The file in which the value is planted, absolute or below `~/`; empty for none."""
    text: str
    """The content of that file, with one `CANARY_VALUE_MARK` in it."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    place: Place
    keys: frozenset[str]
    rules: dict[str, frozenset[str]]
    """Allow rules to which an entry key is narrowed. A key that is missing keeps all its rules."""


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A parameter of the rules: the values that a sandbox may have for it."""

    name: str
    place: Place
    pattern: ValuePattern
    default: str | None = None


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A parsed line of a `tests:` list."""

    place: Place
    text: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    profile: str | None
    at: int | None
    websocket: bool
    verdict: Literal["allow", "deny", "answer"]
    expected: str
    """A rule id, a code, the status of an answer, or empty for any."""
    secrets: frozenset[str]
    parameters: Parameters
    body: bytes
    entry: str | None
    """The entry under which the test is written; a decision of another entry fails the test."""

    @property
    def is_of_handler(self) -> bool:
        """What is expected comes from a handler, not from the rules."""
        return self.verdict == "answer" or (
            self.verdict == "deny"
            and self.expected in ("handler.denied", "handler.failed", "handler.refused")
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """The compiled rules. `digest` identifies the texts they come from."""

    entries: dict[HostPattern, Entry] = field(default_factory=dict)
    networks: tuple[NetworkEntry, ...] = ()
    """Longest prefix first."""
    deny: tuple[Rule, ...] = ()
    secrets: dict[str, SecretSpec] = field(default_factory=dict)
    canaries: tuple[CanarySpec, ...] = ()
    # None means that profiles are not used; an empty mapping denies every sandbox.
    profiles: dict[str, Profile] | None = None
    # The default is the strict mode: an empty file opens nothing.
    mode: Mode = "enforce"
    limit: Limit | None = None
    cases: tuple[RuleTest, ...] = ()
    delegations: tuple[Delegation, ...] = ()
    parameters: dict[str, ParameterSpec] = field(default_factory=dict)
    budgets: dict[str, BudgetSpec] = field(default_factory=dict)
    prices: PriceTable = NO_PRICES
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    """The grants of sandboxes, by name. They come from a running proxy, never from a file."""
    outbound: Outbound = NO_OUTBOUND
    """The handlers that are loaded. They come from a running proxy, never from a file of rules."""
    digest: str = ""
    routes: dict[str, HostRoute] = field(default_factory=dict, repr=False, compare=False)
    """Routes of hosts that were asked for, by host."""
    shared_routes: dict[tuple[str, ...], HostRoute] = field(default_factory=dict, repr=False, compare=False)
    """Routes by entries and denies: hosts of one wildcard share a route."""
    parameter_values: dict[Parameters, Mapping[str, str] | None] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Values that sandboxes brought, with defaults; None for those that are refused."""
    filled_routes: dict[tuple[HostRoute, tuple[tuple[str, str | None], ...]], HostRoute] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Routes with values in place of placeholders."""

    @property
    def ports(self) -> frozenset[int]:
        """Return every port on which the proxy has to listen."""
        entries = [*self.entries.values(), *(network.entry for network in self.networks)]
        return frozenset().union(
            *(entry.ports | entry.clear_ports for entry in entries),
            *(each.ports for each in self.delegations if "allow" in each.kinds),
        )


EMPTY_POLICY = Policy()
"""No rules: everything is denied."""
