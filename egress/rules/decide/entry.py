"""Compiled entries and rules: everything written about one host or one network."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal

from egress.rules.decide.predicates import Predicates
from egress.rules.decide.rule_template import RuleTemplate
from egress.rules.language.hosts import HostPattern
from egress.types import (
    Cookies,
    HandlerUse,
    Headers,
    Injection,
    Limit,
    Place,
    Redirects,
    RuleRef,
    Scrub,
    Slot,
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Mode = Literal["enforce", "observe"]


@dataclass(frozen=True, slots=True)
class Handling:
    """Treatment of responses, limits, and what is recorded; written on an entry or on a rule."""

    limit: Limit | None = None
    scrub: Scrub | None = None
    redirects: Redirects | None = None
    cookies: Cookies | None = None
    kept_query: frozenset[str] | None = None
    """Keys of the query whose values the record keeps."""
    handler: HandlerUse | None = None
    """The handler that is called; that of a rule takes the place of the entry's."""
    unmetered: bool = False
    """Calls of models that no budget sees are meant."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An allow or deny rule. `expires` is the first second at which it no longer matches."""

    ref: RuleRef
    predicates: Predicates
    handling: Handling = Handling()
    expires: int | None = None
    template: RuleTemplate | None = None
    """Of an allow rule with placeholders, whose own predicates fit nothing."""

    @property
    def written(self) -> Predicates:
        """The predicates as they stand in the file."""
        return self.predicates if self.template is None else self.template.written

    @property
    def widest(self) -> Predicates:
        """The predicates of every request that the rule can match, whatever values a sandbox has."""
        return self.predicates if self.template is None else self.template.widest


@dataclass(frozen=True, slots=True)
class ScopedInjection:
    """An item of an `inject:` list. `rules` holds the ids of its rules; None means all."""

    injection: Injection
    place: Place
    rules: frozenset[str] | None = None
    strip: tuple[Slot, ...] = ()
    """Other slots that are emptied for the same requests."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of `hosts:`, or an item of `networks:`."""

    key: str
    place: Place
    pattern: HostPattern | None
    """None for a network."""
    ports: frozenset[int]
    clear_ports: frozenset[int]
    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...] = ()
    lifted: tuple[Rule, ...] = ()
    """Denies of presets that the file lifts: they deny nothing, and are named in records."""
    inject: tuple[ScopedInjection, ...] = ()
    set_headers: Headers = ()
    """Constant headers of every request that is allowed."""
    intercept: bool = True
    http2: bool = False
    mode: Mode | None = None
    handling: Handling = Handling()
    misplaced_pass: bool = False
    expires: int | None = None
    addresses: tuple[str, ...] = ()
    is_virtual: bool = False
    """No upstream: requests are answered by a handler."""
    is_whole: bool = False
    """Only the host is written: its single allow rule has no predicate."""


@dataclass(frozen=True, slots=True)
class NetworkEntry:
    network: Network
    entry: Entry
