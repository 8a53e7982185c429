"""Replacing the rules of a running proxy: read, check, swap; and never anything in between.

What is read in a thread comes back as a whole policy or not at all. Rules that cannot be used, that are
missing, untrusted or empty change nothing: the last good ones stay in force, and that is logged and
recorded. So the proxy never runs without rules, and never by a part of some.

However often it is asked, one reload runs at a time and at most one waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from egress.errors import EgressError
from egress.rules.compile.load import LoadResult
from egress.rules.decide.decision import prepare_routes
from egress.rules.decide.policy import Policy
from egress.types import Finding, Severity

_log = structlog.get_logger(__name__)

ReloadResult = Literal["loaded", "unchanged", "refused"]


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The outcome of a reload."""

    result: ReloadResult
    digest: str
    """The digest of the rules in force."""
    message: str = ""
    """Why they were refused, when no finding says it."""
    hint: str = ""
    findings: tuple[Finding, ...] = ()
    before: str = ""
    """The digest of the rules that were in force until then; empty where they still are."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The mistakes in the rules."""
        return tuple(item for item in self.findings if item.severity is Severity.ERROR)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why they were refused, a line each: findings with their place, or the one message."""
        errors = tuple(map(str, self.errors))
        return errors if self.result == "refused" and errors else tuple(filter(None, [self.message]))


def log_refusal(outcome: ReloadOutcome, why: str, since: str) -> None:
    """Log every problem of rules that were refused; those in force are of `since`."""
    kept = f"the rules of {since} ({outcome.digest[:12]}) stay in force"
    if not outcome.digest:
        kept = "there are none before them, so everything is denied"
    hints = [finding.hint for finding in outcome.errors] or [outcome.hint]
    for problem, hint in zip(outcome.problems, hints, strict=True):
        cure = {"hint": hint} if hint else {}
        _log.error("rules.refused", why=why, problem=problem, **cure, kept=kept)


class PolicyHolder(Protocol):
    """The holder of the policy while the proxy runs: the engine."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        ...

    def swap(self, policy: Policy) -> None:
        """Decide by this from now on."""
        ...


class RuleReloader:
    """Reloads one set of rules, one after the other."""

    def __init__(
        self,
        rules: PolicyHolder,
        read: Callable[[], LoadResult],
        told: Callable[[ReloadOutcome, str], Awaitable[None]],
    ) -> None:
        """`read` runs in a thread; `told` is awaited after each reload, with why it was asked for."""
        self._rules = rules
        self._read = read
        self._told = told
        self._running = asyncio.Lock()
        self._waiting: asyncio.Task[ReloadOutcome] | None = None
        self.last: ReloadOutcome | None = None

    async def reload(self, why: str) -> ReloadOutcome:
        """Reload, or share the reload that has not begun yet. Never raises."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._next(why))
        # A caller that gives up must not cancel the reload for the other callers.
        return await asyncio.shield(self._waiting)

    async def _next(self, why: str) -> ReloadOutcome:
        async with self._running:
            # From here on what changes is too late for this one.
            self._waiting = None
            outcome = self.last = await self._reload()
            await self._told(outcome, why)
            return outcome

    def _read_prepared(self) -> LoadResult:
        """Read the rules, and compile what their first requests would otherwise wait for."""
        loaded = self._read()
        if loaded.policy is not None:
            prepare_routes(loaded.policy)
        return loaded

    async def _reload(self) -> ReloadOutcome:
        now = self._rules.policy.digest
        try:
            loaded = await asyncio.to_thread(self._read_prepared)
        except EgressError as error:
            return ReloadOutcome("refused", now, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the last good rules stay
            name = type(error).__name__
            return ReloadOutcome("refused", now, f"the rules could not be read ({name})", "look at the files")
        if loaded.policy is None:
            return ReloadOutcome("refused", now, findings=loaded.findings)
        if loaded.policy.digest == now:
            return ReloadOutcome("unchanged", now, findings=loaded.findings)
        self._rules.swap(loaded.policy)
        return ReloadOutcome("loaded", loaded.policy.digest, findings=loaded.findings, before=now)
