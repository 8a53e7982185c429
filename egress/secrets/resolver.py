"""Resolve secrets to values: nearly always from memory, and from their source once they are due.

Theory of operation. One resolver serves the process, on one event loop. Values are cached by source, that is
by scheme and reference: two secrets of one source share a value and a fetch, and a secret whose reference was
changed by a reload cannot get the value of the old one. At most one fetch runs per source; every caller waits
for the same fetch, until its own deadline, and gives up alone. An unavailable secret is missing from the
answer: the exchange is denied.

`source_value` decides when a value is good, `value_history` which values are searched for, `binding_history`
in whose answers, `source` where values come from.

Must not raise for a failing source, and must not log more than names, causes and cures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial
from typing import Protocol

from egress.errors import EgressError, UnreadableError
from egress.logger import EventLogger
from egress.rules.decide.policy import SecretSpec
from egress.scrub import MIN_SECRET_BYTES, JoinedNeedles, Needles
from egress.secrets.binding_history import BindingHistory
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.cluster_secret import ClusterSecrets
from egress.secrets.command import COMMAND_TIMEOUT
from egress.secrets.daemon_thread import run_in_thread
from egress.secrets.environment_capture import CapturedEnvironment, secret_variables
from egress.secrets.needle_cache import LogNeedles, NeedleCache
from egress.secrets.source_factory import SourceFactory, UnavailableSecret
from egress.secrets.source_value import CacheEntry, SecretSource, SourceValue
from egress.secrets.value_history import KnownValue, ValueHistory
from egress.types import Secret

type Key = tuple[str, tuple[str, ...]]

_log = EventLogger(__name__)


_TOO_SHORT_FAULT = (
    f"the value has fewer than {MIN_SECRET_BYTES} bytes and cannot be scrubbed",
    "use a longer secret, or write `scrub: off` where it is injected",
)
_REVOKED_FAULT = ("it was revoked", "`egress kill --undo` with its name restores it")


class ResolverClock(Protocol):
    """The clock of the resolver."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""


class SecretResolver:
    """The values of all secrets of this process. Call all methods on the event loop's thread."""

    def __init__(
        self,
        *,
        clock: ResolverClock,
        captured: CapturedEnvironment,
        deadline: float = 5.0,
        negative: float = 2.0,
        timeout: float = COMMAND_TIMEOUT,
        container: bool = False,
        cluster: ClusterSecrets | None = None,
    ) -> None:
        """Make an empty resolver.

        `deadline` bounds a `resolve`, `timeout` a run of a command, and `negative` is the pause after a
        failure before a source is asked again; all in seconds. In a `container`, `env:` is refused. `k8s:`
        needs the Secrets of a `cluster`.
        """
        self._monotonic = clock.monotonic
        self._deadline = deadline
        self._negative = negative
        self._child_environment = ChildEnvironment(captured.environ, captured.values.values())
        self._sources = SourceFactory(captured, self._child_environment, container, timeout, cluster)
        self._entries: dict[Key, CacheEntry] = {}
        self._runs: dict[CacheEntry, asyncio.Task[None]] = {}
        self._histories: dict[str, ValueHistory] = {}
        self._bindings = BindingHistory()
        self._in_use: dict[tuple[str, ...], tuple[KnownValue, ...]] = {}
        self._needle_cache = NeedleCache()
        self._log_needles = LogNeedles()
        self.version = 0
        """Grows whenever `needles_at` may have more to search for than before."""

    # Values -----------------------------------------------------------------------------------

    def cached(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> dict[str, Secret] | None:
        """Return all secrets if every one is good now, else None; sources that are due are asked meanwhile.

        `unscrubbed` names the secrets that may be used although they are too short to be scrubbed.
        """
        now = self._monotonic()
        found: dict[str, Secret] = {}
        for spec in specs:
            name = spec.name
            entry = self._entries.get((spec.scheme, spec.reference))
            if entry is None or name not in entry.names:
                return None
            secret = entry.secret_if_good(name, spec.ttl, now)
            if secret is None or (entry.is_short and name not in unscrubbed):
                return None
            if entry.is_due(spec.ttl, now):
                self._fetch(entry)
            found[name] = secret
        return found

    async def resolve(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> dict[str, Secret]:
        """Return the secrets available within the deadline. Never raises for a missing secret."""
        specs = tuple(specs)
        for spec in specs:
            # Every source is noted before the first fetch: a command must not get the variable of a secret.
            self._of(spec)
        runs = {run for spec in specs if (run := self._awaited(spec))}
        if runs:
            # A deadline or a cancelled caller ends no fetch, since other callers may wait for it.
            await asyncio.wait(runs, timeout=self._deadline)
        now = self._monotonic()
        found = {}
        for spec in specs:
            secret = self._usable(spec, now, unscrubbed)
            if secret is not None:
                found[spec.name] = secret
        return found

    async def warm(self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()) -> None:
        """Ask all sources of a policy that comes into force, and drop sources it does not name.

        Revocations stay. Replaced values are searched for a while longer.
        """
        specs = tuple(specs)
        names: dict[Key, set[str]] = {}
        for spec in specs:
            names.setdefault((spec.scheme, spec.reference), set()).add(spec.name)
        # A revoked source stays, even unnamed: naming it again must not bring the value back.
        for key, entry in list(self._entries.items()):
            self._retire(entry, entry.names - names.get(key, set()))
            if not entry.names and not entry.is_revoked:
                del self._entries[key]
        if self._sources.cluster is not None:
            self._sources.cluster.keep(frozenset(key[1][0] for key in names if key[0] == "k8s" and key[1]))
        now = self._monotonic()
        self._bindings.replace(specs, now, self._is_carried)
        self._histories = {
            name: history for name, history in self._histories.items() if history.searched_values(now)
        }
        self._changed()
        await self.resolve(specs, unscrubbed)

    # Telling ----------------------------------------------------------------------------------

    def unavailable(
        self, specs: Iterable[SecretSpec], unscrubbed: Collection[str] = ()
    ) -> tuple[UnavailableSecret, ...]:
        """Return the failed secrets with causes; secrets still being fetched are left out."""
        found = []
        for spec in specs:
            entry = self._entries.get((spec.scheme, spec.reference))
            fault = entry and _cache_fault(entry, is_unscrubbed=spec.name in unscrubbed)
            if fault:
                found.append(UnavailableSecret(spec.name, spec.scheme, *fault))
        return tuple(found)

    def ages(self, specs: Iterable[SecretSpec]) -> dict[str, float]:
        """Return for each cached secret the seconds since its source gave or confirmed it."""
        now = self._monotonic()
        found = {}
        for spec in specs:
            entry = self._entries.get((spec.scheme, spec.reference))
            if entry is not None and entry.confirmed is not None:
                found[spec.name] = now - entry.confirmed
        return found

    def variables(self, specs: Iterable[SecretSpec]) -> dict[str, bool]:
        """Report for each variable of an `env:` secret whether it had a value when this process started."""
        captured = self._sources.captured.values
        found = {name: captured.get(name) for name in sorted(secret_variables(specs))}
        return {name: value is not None and not value.is_empty for name, value in found.items()}

    # Searches ---------------------------------------------------------------------------------

    def needles(self, specs: Iterable[SecretSpec]) -> Needles:
        """Return the search for every known value of these secrets, replaced values included."""
        return self._finding(spec.name for spec in specs)

    def needles_at(self, host: str, port: int, specs: Iterable[SecretSpec]) -> Needles | None:
        """Return the search for an answer from a destination; None if no secret is, or was, bound to it.

        Covers `specs`, which the rules of the exchange bind to the destination, and every secret that other
        rules let go there within the last hour. The result is right until `version` changes, and may be kept:
        it then covers more than it has to.
        """
        specs, now = tuple(specs), self._monotonic()
        if self._bindings.note(specs, now):
            self._changed()
        names = dict.fromkeys(spec.name for spec in specs)
        names.update(dict.fromkeys(self._bindings.names_at(host, port, now, self._is_carried)))
        return self._finding(names) if names else None

    def begin_use(self, names: tuple[str, ...]) -> tuple[KnownValue, ...]:
        """Note that an exchange is sent with these secrets; pass the result to `end_use`."""
        carried = self._in_use.get(names)
        if carried is None:
            histories = [self._histories[name] for name in names if name in self._histories]
            carried = self._in_use[names] = tuple(
                [known for history in histories for known in history.in_use()]
            )
        for known in carried:
            known.carried += 1
        return carried

    def end_use(self, carried: tuple[KnownValue, ...]) -> None:
        """Note that the exchange with these values is over."""
        for known in carried:
            known.carried -= 1

    def all_needles(self) -> JoinedNeedles:
        """Return the search for every known value of any secret, for `Redactor`; from any thread."""
        now = self._monotonic()
        known = tuple(
            known for history in list(self._histories.values()) for known in history.searched_values(now)
        )
        return self._log_needles.of(known)

    # Revocation -------------------------------------------------------------------------------

    def revoke(self, specs: Iterable[SecretSpec]) -> None:
        """Revoke the sources of these secrets until `restore`, whatever values they give meanwhile.

        A source is revoked under every name that it has: a value that has leaked is the same under another.
        """
        for spec in specs:
            entry = self._of(spec)
            if entry.revoke(spec.name):
                _log.warning("secret.revoked", secrets=sorted(entry.names))

    def restore(self, name: str) -> None:
        """Lift the revocation of a secret, also of sources that it had under earlier rules."""
        for entry in self._entries.values():
            entry.restore(name)

    async def close(self) -> None:
        """Cancel all fetches and kill running commands; no command runs again."""
        # Programs are killed first: a cancelled task would leave its thread and its program running.
        for entry in self._entries.values():
            entry.source.stop()
        runs = tuple(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    # Inside -----------------------------------------------------------------------------------

    def _of(self, spec: SecretSpec) -> CacheEntry:
        """Return the cache entry for the source of a secret, with its name noted."""
        key = (spec.scheme, spec.reference)
        entry = self._entries.get(key)
        if entry is None:
            if spec.scheme == "env" and spec.reference:
                self._child_environment.hide(spec.reference[0])
            entry = self._entries[key] = CacheEntry(self._sources.of(spec))
        if spec.name not in entry.names:
            entry.names.add(spec.name)
            self._note(entry)
        if spec.scheme == "k8s" and spec.reference and self._sources.cluster is not None:
            # Asked each time: the rules may name a Secret again that was forgotten.
            self._sources.cluster.watch(spec.reference[0], self._outdate)
        return entry

    def _awaited(self, spec: SecretSpec) -> asyncio.Task[None] | None:
        """Return the fetch to wait for, if any."""
        entry = self._of(spec)
        now = self._monotonic()
        run = self._fetch(entry) if entry.is_due(spec.ttl, now) else self._running(entry)
        return run if entry.secret_if_good(spec.name, spec.ttl, now) is None else None

    def _fetch(self, entry: CacheEntry) -> asyncio.Task[None]:
        """Start a fetch, unless one runs."""
        run = self._running(entry)
        if run is None:
            entry.is_told_slow = False
            run = self._runs[entry] = asyncio.get_running_loop().create_task(self._run(entry))
            run.add_done_callback(partial(self._ended, entry))
        return run

    def _running(self, entry: CacheEntry) -> asyncio.Task[None] | None:
        run = self._runs.get(entry)
        # A finished task may still be in the table: no caller has to wait for it.
        return None if run is None or run.done() else run

    def _ended(self, entry: CacheEntry, run: asyncio.Task[None]) -> None:
        if self._runs.get(entry) is run:
            del self._runs[entry]

    async def _run(self, entry: CacheEntry) -> None:
        """Ask the source and store the result; raises nothing but its own cancellation."""
        try:
            value = await self._current_value(entry)
            is_news = entry.fault is not None
            is_new = entry.store(value, self._monotonic())
        except EgressError as fault:
            self._fail(entry, fault)
        except Exception as error:  # noqa: BLE001 - its text may hold a value, so it is not logged
            self._fail(
                entry,
                UnreadableError(f"the source failed with {type(error).__name__}", "please report this bug"),
            )
        else:
            if is_new:
                self._note(entry)
            if is_new or is_news:
                _log.info("secret.resolved", secrets=sorted(entry.names))

    async def _current_value(self, entry: CacheEntry) -> SourceValue:
        """Ask the source, and again if it says meanwhile that its value is another one."""
        while True:
            turn = entry.turn
            try:
                value = await run_in_thread(
                    partial(_fetch_value, entry.source, entry.value, min(entry.names, default=""))
                )
            except EgressError:
                if turn == entry.turn:
                    raise
            else:
                if turn == entry.turn:
                    return value

    def _outdate(self, name: str) -> None:
        """Use no value of this Secret of the cluster before it is fetched again."""
        for (scheme, reference), entry in self._entries.items():
            if scheme == "k8s" and reference[:1] == (name,):
                entry.outdate()
                self._fetch(entry)

    def _fail(self, entry: CacheEntry, fault: EgressError) -> None:
        if entry.fail(fault, self._monotonic() + self._negative):
            _log.warning(
                "secret.unavailable", secrets=sorted(entry.names), cause=fault.message, cure=fault.hint
            )

    def _note(self, entry: CacheEntry) -> None:
        """Search for the value from now on."""
        if entry.value is None:
            return
        for name in entry.names:
            self._histories.setdefault(name, ValueHistory()).add(name, entry.value, entry, self._monotonic())
            self._needle_cache.drop(name)
        self._changed()

    def _changed(self) -> None:
        """Invalidate derived data: more values may be searched for, or another value is in use."""
        self.version += 1
        self._in_use.clear()

    def _finding(self, names: Iterable[str]) -> Needles:
        now = self._monotonic()
        known: tuple[KnownValue, ...] = ()
        for name in names:
            history = self._histories.get(name)
            if history is not None:
                known += history.searched_values(now)
        return self._needle_cache.of(known)

    def _is_carried(self, name: str) -> bool:
        history = self._histories.get(name)
        return history is not None and history.is_carried

    def _retire(self, entry: CacheEntry, names: set[str]) -> None:
        """Remove these names from a source they no longer belong to."""
        entry.names -= names
        for name in names:
            if name in self._histories:
                self._histories[name].retire(entry, self._monotonic())

    def _usable(self, spec: SecretSpec, now: float, unscrubbed: Collection[str]) -> Secret | None:
        """Return the secret if it may be used; else make sure that the reason is logged, once."""
        entry = self._entries.get((spec.scheme, spec.reference))
        if entry is None or spec.name not in entry.names:
            # Other rules came into force meanwhile and lack the secret: it is not added again.
            return None
        secret = entry.secret_if_good(spec.name, spec.ttl, now)
        if secret is None:
            if self._running(entry) and not entry.is_told_slow:
                entry.is_told_slow = True
                self._tell(
                    spec.name,
                    f"the source has not answered within {self._deadline:g} s",
                    "Egress keeps waiting; find out why the source is slow",
                )
            return None
        if not entry.is_short or spec.name in unscrubbed:
            return secret
        if not entry.is_told_short:
            entry.is_told_short = True
            self._tell(spec.name, *_TOO_SHORT_FAULT)
        return None

    def _tell(self, name: str, cause: str, cure: str) -> None:
        _log.warning("secret.unavailable", secrets=[name], cause=cause, cure=cure)


def _fetch_value(source: SecretSource, last: SourceValue | None, name: str) -> SourceValue:
    """Return the checked value of a source, with its costly parts prepared; runs in a thread."""
    value = source.fetch()
    # The known object carries compiled searches, which stay valid for the same value.
    if last is not None and value.is_same(last):
        return last
    # Checked and compiled in the thread, since both would hold up the event loop for milliseconds.
    value.secret_named(name)
    value.needles(name)
    return value


def _cache_fault(entry: CacheEntry, *, is_unscrubbed: bool) -> tuple[str, str] | None:
    """Return the cause and cure if the cached value cannot be used."""
    if entry.is_revoked:
        return _REVOKED_FAULT
    if entry.fault is not None:
        return entry.fault.message, entry.fault.hint
    return _TOO_SHORT_FAULT if entry.is_short and entry.value is not None and not is_unscrubbed else None
