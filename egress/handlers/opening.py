"""Open the handlers that an operator names, and check the names in the rules against them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from egress.errors import ContentError
from egress.handlers.caller import NO_HANDLERS, HandlerCaller
from egress.handlers.in_process import InProcessHandlers
from egress.handlers.module import module_of, read_module
from egress.handlers.own_process import ProcessHandlers
from egress.rules.decide.outbound import Outbound
from egress.rules.decide.policy import Policy
from egress.rules.language.report import did_you_mean
from egress.types import Place


async def open_handlers(path: Path | None, *, in_process: bool) -> HandlerCaller:
    """Load a file of handlers; None for no handlers. Raises `EgressError`."""
    if path is None:
        return NO_HANDLERS
    if in_process:
        return InProcessHandlers(module_of(path, read_module(path)))
    return await ProcessHandlers.open(path)


def unknown_handlers(policy: Policy, outbound: Outbound) -> Iterator[tuple[str, str, Place]]:
    """Yield each use of a handler that is not loaded: the rule or entry, the name, and the place."""
    for entry in policy.entries.values():
        uses = [(entry.key, entry.handling.handler, entry.place)]
        uses += [(str(rule.ref), rule.handling.handler, rule.ref.place) for rule in entry.allow]
        for key, use, place in uses:
            if use is not None and use.name not in outbound.bodies:
                yield key, use.name, place


def refuse_unknown_handlers(policy: Policy, outbound: Outbound) -> None:
    """Raise `ContentError` for the first use of a handler that is not loaded."""
    for key, name, place in unknown_handlers(policy, outbound):
        if not outbound.bodies:
            raise ContentError(
                f"{place}: {key} names the handler {name}, and no handlers are loaded",
                "name their file with --handlers",
            )
        raise ContentError(
            f"{place}: {key} names the handler {name}, which is not loaded",
            did_you_mean(name, outbound.names),
        )
