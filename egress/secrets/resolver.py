"""Hand out the values of secrets: from memory nearly always, from their source when they are due.

Theory of operation. One resolver serves the process, on one event loop. Values are held by source, that is by
scheme and reference: two secrets of one source share a value and one run, and a secret whose reference was
changed by a reload cannot get the value of the old one. At most one look runs for each source; everybody who
needs it waits for that one, for as long as the deadline at most, and gives up alone. What could not be had is
missing from the answer: the exchange then denies.

`held` says when a value is good, `trail` which values are searched for, `reach` in whose answers, `source`
where they come from.

Must not raise for a source that fails, and must not log more than names, causes and cures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial
from typing import Protocol

import structlog

from egress.errors import EgressError, UnreadableError
from egress.rules.decide.policy import SecretSpec
from egress.scrub import MIN_SECRET_BYTES, JoinedNeedles, Needles
from egress.secrets.binding_history import BindingHistory
from egress.secrets.cache_entry import CacheEntry
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import COMMAND_TIMEOUT
from egress.secrets.daemon_thread import run_in_thread
from egress.secrets.environment_capture import CapturedEnvironment, secret_variables
from egress.secrets.needle_cache import LogNeedles, NeedleCache
from egress.secrets.source import SecretSource, SourceFactory, UnavailableSecret
from egress.secrets.source_value import SourceValue
from egress.secrets.value_history import KnownValue, ValueHistory
from egress.types import Secret

type Key = tuple[str, tuple[str, ...]]

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


_TOO_SHORT_FAULT = (
    f"the value has fewer than {MIN_SECRET_BYTES} bytes and cannot be scrubbed",
    "use a longer secret, or write `scrub: off` where it is injected",
)


class ResolverClock(Protocol):
    """What the resolver needs of a clock."""

    def monotonic(self) -> float:
        """Seconds that only ever grow."""


class SecretResolver:
    """The values of all secrets of this process. All methods are for the event loop's thread."""

    def __init__(
        self,
        *,
        clock: ResolverClock,
        captured: CapturedEnvironment,
        deadline: float = 5.0,
        negative: float = 2.0,
        timeout: float = COMMAND_TIMEOUT,
        container: bool = False,
    ) -> None:
        """Make a resolver that holds nothing yet.

        `deadline` bounds one `resolve`, `timeout` one run of a command, `negative` is how long a source
        that failed is left alone; all in seconds. In a `container`, `env:` is refused.
        """
        self._monotonic = clock.monotonic
        self._deadline = deadline
        self._negative = negative
        self._surroundings = ChildEnvironment(captured.environ, captured.values.values())
        self._sources = SourceFactory(captured, self._surroundings, container, timeout)
        self._held: dict[Key, CacheEntry] = {}
        self._runs: dict[CacheEntry, asyncio.Task[None]] = {}
        self._trails: dict[str, ValueHistory] = {}
        self._reach = BindingHistory()
        self._in_use: dict[tuple[str, ...], tuple[KnownValue, ...]] = {}
        self._searches = NeedleCache()
        self._everything = LogNeedles()
        self.version = 0
        """Grows whenever `needles_at` may have more to look for than before."""

    # Values -----------------------------------------------------------------------------------

    def cached(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> dict[str, Secret] | None:
        """Return all of them if every one is good now, else None; what is due is asked for meanwhile.

        `unscrubbed` names the secrets that may be used although they are too short to be scrubbed.
        """
        now = self._monotonic()
        found: dict[str, Secret] = {}
        for spec in specs:
            name = spec.name
            held = self._held.get((spec.scheme, spec.reference))
            if held is None or name not in held.names:
                return None
            secret = held.secret_if_good(name, spec.ttl, now)
            if secret is None or (held.is_short and name not in unscrubbed):
                return None
            if held.is_due(spec.ttl, now):
                self._fetch(held)
            found[name] = secret
        return found

    async def resolve(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> dict[str, Secret]:
        """Return those that can be had within the deadline. Never raises for one that cannot."""
        specs = tuple(specs)
        for spec in specs:
            # All of them before the first look: a command must not get the variable of a secret.
            self._of(spec)
        runs = {run for spec in specs if (run := self._awaited(spec))}
        if runs:
            # Neither a deadline nor a cancelled waiter ends a run that others may wait for.
            await asyncio.wait(runs, timeout=self._deadline)
        now = self._monotonic()
        found = {}
        for spec in specs:
            secret = self._usable(spec, now, unscrubbed)
            if secret is not None:
                found[spec.name] = secret
        return found

    async def warm(self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()) -> None:
        """Ask all sources of a policy that comes into force, and let go of those it does not name.

        Revocations stay. The replaced values are searched for a while longer.
        """
        specs = tuple(specs)
        names: dict[Key, set[str]] = {}
        for spec in specs:
            names.setdefault((spec.scheme, spec.reference), set()).add(spec.name)
        for key, held in list(self._held.items()):
            self._retire(held, held.names - names.get(key, set()))
            if not held.names and not held.is_revoked:
                del self._held[key]
        now = self._monotonic()
        self._reach.replace(specs, now, self._is_carried)
        self._trails = {name: trail for name, trail in self._trails.items() if trail.searched_values(now)}
        self._changed()
        await self.resolve(specs, unscrubbed)

    # Telling ----------------------------------------------------------------------------------

    def unavailable(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> tuple[UnavailableSecret, ...]:
        """Say which of these were asked for in vain, and why; what is still waited for is left out."""
        found = []
        for spec in specs:
            held = self._held.get((spec.scheme, spec.reference))
            fault = held and _cache_fault(held, is_unscrubbed=spec.name in unscrubbed)
            if fault:
                found.append(UnavailableSecret(spec.name, spec.scheme, *fault))
        return tuple(found)

    def ages(self, specs: Iterable[SecretSpec]) -> dict[str, float]:
        """Say of each of these that is held how many seconds ago its source gave or confirmed it."""
        now = self._monotonic()
        found = {}
        for spec in specs:
            held = self._held.get((spec.scheme, spec.reference))
            if held is not None and held.confirmed is not None:
                found[spec.name] = now - held.confirmed
        return found

    def variables(self, specs: Iterable[SecretSpec]) -> dict[str, bool]:
        """Say of each variable that `env:` secrets name whether this process was started with it."""
        captured = self._sources.captured.values
        return {name: name in captured for name in sorted(secret_variables(specs))}

    # Searches ---------------------------------------------------------------------------------

    def needles(self, specs: Iterable[SecretSpec]) -> Needles:
        """Return what finds every value of these secrets known by now, replaced ones included."""
        return self._finding(spec.name for spec in specs)

    def needles_at(self, host: str, port: int, specs: Iterable[SecretSpec]) -> Needles | None:
        """Return what an answer from there is searched for; None where no secret is, or was, bound to it.

        These are `specs`, which are bound to it by the rules that the exchange goes by, and all that
        other rules let go there within the last hour. It stays right until `version` changes, and
        may be kept: it is then searched for longer than it has to be.
        """
        specs, now = tuple(specs), self._monotonic()
        if self._reach.note(specs, now):
            self._changed()
        names = dict.fromkeys(spec.name for spec in specs)
        names.update(dict.fromkeys(self._reach.names_at(host, port, now, self._is_carried)))
        return self._finding(names) if names else None

    def begin_use(self, names: tuple[str, ...]) -> tuple[KnownValue, ...]:
        """Note that an exchange is sent with these secrets; what is returned is for `let_go` at its end."""
        carried = self._in_use.get(names)
        if carried is None:
            trails = [self._trails[name] for name in names if name in self._trails]
            carried = self._in_use[names] = tuple([known for trail in trails for known in trail.in_use()])
        for known in carried:
            known.carried += 1
        return carried

    def end_use(self, carried: tuple[KnownValue, ...]) -> None:
        """The exchange is over that was sent with these."""
        for known in carried:
            known.carried -= 1

    def all_needles(self) -> JoinedNeedles:
        """Return what finds every value that is known of any secret, for `Redactor`; from any thread."""
        now = self._monotonic()
        known = tuple(known for trail in list(self._trails.values()) for known in trail.searched_values(now))
        return self._everything.of(known)

    # Revocation -------------------------------------------------------------------------------

    def revoke_by_name(self, name: str) -> bool:
        """Revoke the value of a secret until its source gives another one; False when no such is known.

        The value is revoked under every name that it has from this source.
        """
        hit = [held for held in self._held.values() if name in held.names]
        for held in hit:
            held.revoke()
            _log.warning("secret.revoked", secrets=sorted(held.names))
        return bool(hit)

    def revoke(self, specs: Iterable[SecretSpec]) -> None:
        """Revoke the values of these secrets as `forget` does, also of those never asked for."""
        for held in {self._of(spec) for spec in specs}:
            held.revoke()
            _log.warning("secret.revoked", secrets=sorted(held.names))

    def restore(self) -> None:
        """Allow again what was revoked: for a reload that the operator asked for, not for a changed file."""
        for held in self._held.values():
            held.restore()

    async def close(self) -> None:
        """End all runs and kill the commands that still run; no command is run again."""
        for held in self._held.values():
            held.source.stop()
        runs = tuple(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    # Inside -----------------------------------------------------------------------------------

    def _of(self, spec: SecretSpec) -> CacheEntry:
        """Return what is held of the source of a secret, with its name noted."""
        key = (spec.scheme, spec.reference)
        held = self._held.get(key)
        if held is None:
            if spec.scheme == "env" and spec.reference:
                self._surroundings.hide(spec.reference[0])
            held = self._held[key] = CacheEntry(self._sources.of(spec))
        if spec.name not in held.names:
            held.names.add(spec.name)
            self._note(held)
        return held

    def _awaited(self, spec: SecretSpec) -> asyncio.Task[None] | None:
        """Return the run that has to be waited for, if there is one."""
        held = self._of(spec)
        now = self._monotonic()
        run = self._fetch(held) if held.is_due(spec.ttl, now) else self._running(held)
        return run if held.secret_if_good(spec.name, spec.ttl, now) is None else None

    def _fetch(self, held: CacheEntry) -> asyncio.Task[None]:
        """Start a look, unless one runs."""
        run = self._running(held)
        if run is None:
            held.is_told_slow = False
            run = self._runs[held] = asyncio.get_running_loop().create_task(self._run(held))
            run.add_done_callback(partial(self._ended, held))
        return run

    def _running(self, held: CacheEntry) -> asyncio.Task[None] | None:
        run = self._runs.get(held)
        # One that is done may not have been taken out yet: there is nothing to wait for.
        return None if run is None or run.done() else run

    def _ended(self, held: CacheEntry, run: asyncio.Task[None]) -> None:
        if self._runs.get(held) is run:
            del self._runs[held]

    async def _run(self, held: CacheEntry) -> None:
        """Ask the source and note what came of it; raises nothing but its own cancellation."""
        try:
            value = await run_in_thread(
                partial(_fetch_value, held.source, held.value, min(held.names, default=""))
            )
            is_news = held.fault is not None
            is_new = held.store(value, self._monotonic())
        except EgressError as fault:
            self._fail(held, fault)
        except Exception as error:  # noqa: BLE001 - its text is not ours, so nobody sees it
            self._fail(
                held, UnreadableError(f"the source failed with {type(error).__name__}", "report this mistake")
            )
        else:
            if is_new:
                self._note(held)
            if is_new or is_news:
                _log.info("secret.resolved", secrets=sorted(held.names))

    def _fail(self, held: CacheEntry, fault: EgressError) -> None:
        if held.fail(fault, self._monotonic() + self._negative):
            _log.warning(
                "secret.unavailable", secrets=sorted(held.names), cause=fault.message, cure=fault.hint
            )

    def _note(self, held: CacheEntry) -> None:
        """Have the value searched for from now on."""
        if held.value is None:
            return
        for name in held.names:
            self._trails.setdefault(name, ValueHistory()).add(name, held.value, held, self._monotonic())
            self._searches.drop(name)
        self._changed()

    def _changed(self) -> None:
        """There may be more to look for, or another value in use: what was made before does not hold."""
        self.version += 1
        self._in_use.clear()

    def _finding(self, names: Iterable[str]) -> Needles:
        now = self._monotonic()
        known: tuple[KnownValue, ...] = ()
        for name in names:
            trail = self._trails.get(name)
            if trail is not None:
                known += trail.searched_values(now)
        return self._searches.of(known)

    def _is_carried(self, name: str) -> bool:
        trail = self._trails.get(name)
        return trail is not None and trail.is_carried

    def _retire(self, held: CacheEntry, names: set[str]) -> None:
        """Take these names from a source that does not belong to them any more."""
        held.names -= names
        for name in names:
            if name in self._trails:
                self._trails[name].retire(held, self._monotonic())

    def _usable(self, spec: SecretSpec, now: float, unscrubbed: Collection[str]) -> Secret | None:
        """Return the secret if it may be used; else see to it that the reason was told, once."""
        held = self._held.get((spec.scheme, spec.reference))
        if held is None or spec.name not in held.names:
            # Other rules came into force in the meantime, and do not have it: it is not put back.
            return None
        secret = held.secret_if_good(spec.name, spec.ttl, now)
        if secret is None:
            if self._running(held) and not held.is_told_slow:
                held.is_told_slow = True
                self._tell(
                    spec.name,
                    f"the source has not answered within {self._deadline:g} s",
                    "it is still being waited for; see why it is slow",
                )
            return None
        if not held.is_short or spec.name in unscrubbed:
            return secret
        if not held.is_told_short:
            held.is_told_short = True
            self._tell(spec.name, *_TOO_SHORT_FAULT)
        return None

    def _tell(self, name: str, cause: str, cure: str) -> None:
        _log.warning("secret.unavailable", secrets=[name], cause=cause, cure=cure)


def _fetch_value(source: SecretSource, last: SourceValue | None, name: str) -> SourceValue:
    """Return what the source gives, checked, and with its costly parts made; runs in a thread."""
    value = source.fetch()
    if last is not None and value.is_same(last):
        return last
    value.secret_named(name)
    value.needles(name)
    return value


def _cache_fault(held: CacheEntry, *, is_unscrubbed: bool) -> tuple[str, str] | None:
    """Return why what is held cannot be used, and the cure."""
    if held.fault is not None:
        return held.fault.message, held.fault.hint
    return _TOO_SHORT_FAULT if held.is_short and held.value is not None and not is_unscrubbed else None
