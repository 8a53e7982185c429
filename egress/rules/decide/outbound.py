"""Handlers: those that a proxy has loaded, and the one that is called for a request.

Handlers are functions of the operator. The rules only know their names. Which one is called, in this order:

    the rule, or else the entry, that allows the request: `handler: {use: NAME}` in the rule file
    the sandbox's own choice for the host, made by its owner while it runs
    the handler of the host in the module of handlers
    the sandbox's own choice for all hosts
    the handler for all hosts in the module

So nothing that is chosen while a sandbox runs takes the place of a handler that the rule file demands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from egress.rules.language.hosts import HostPattern, candidate_patterns
from egress.types import Effects, HandlerUse, Identity


@dataclass(frozen=True, slots=True)
class HandlerChoice:
    """Handlers by host, and one for all other hosts."""

    by_host: Mapping[HostPattern, HandlerUse] = field(default_factory=dict)
    catch_all: HandlerUse | None = None

    @property
    def is_empty(self) -> bool:
        return not self.by_host and self.catch_all is None

    def for_host(self, host: str) -> HandlerUse | None:
        """Return the handler of the most specific pattern that matches the host."""
        if not self.by_host:
            return None
        return next((use for each in candidate_patterns(host) if (use := self.by_host.get(each))), None)


HANDLER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
NO_CHOICE: Final = HandlerChoice()


@dataclass(frozen=True, slots=True)
class Outbound:
    """The handlers of a proxy."""

    bodies: Mapping[str, int] = field(default_factory=dict)
    """The handlers by name, each with the bytes of a request body that it reads; 0 for none."""
    static: HandlerChoice = NO_CHOICE
    """The choice of the module of handlers."""
    chosen: Mapping[str, HandlerChoice] = field(default_factory=dict)
    """The choices of sandboxes, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.bodies))

    def with_choice(self, sandbox: str, choice: HandlerChoice) -> Outbound:
        """Return the handlers with another choice of this sandbox."""
        others = {name: each for name, each in self.chosen.items() if name != sandbox}
        return replace(self, chosen=others if choice.is_empty else {**others, sandbox: choice})

    def handler_for(self, identity: Identity, host: str, effects: Effects) -> HandlerUse | None:
        """Return the handler that is called for an allowed request; None for none."""
        if effects.handlers:
            return effects.handlers[0]
        own = self.chosen.get(identity.sandbox, NO_CHOICE)
        static = self.static
        return own.for_host(host) or static.for_host(host) or own.catch_all or static.catch_all


NO_OUTBOUND: Final = Outbound()
