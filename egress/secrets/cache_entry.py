"""Cache of one source: its last value, how long that is good, and its last failure.

Theory of operation. A value is *good* from the moment its source gave or confirmed it until the end of its
lifetime, and no failure prolongs it. Late in that time it is *due*: the next use asks the source and goes on
with the good value meanwhile, so that a rotation has no gap and no request waits. After a failure the source
is not asked for a short while, whether the value is good or not.

A source is *revoked* by the name of a secret. Then none of its values is good, whatever it gives and whoever
names it, until every name that revoked it is restored. Its values are still searched for, but a source that
makes a value for each fetch is not asked.

Pure bookkeeping: no clock, no thread, no log. The resolver passes the time and logs.
"""

from __future__ import annotations

from egress.errors import EgressError
from egress.secrets.source import SecretSource
from egress.secrets.source_value import SourceValue, ValueLifetime
from egress.types import Secret


class CacheEntry:
    """The cache of one source, identified by scheme and reference."""

    __slots__ = (
        "_confirmed",
        "_lifetimes",
        "_retry",
        "_revoked_by",
        "fault",
        "is_short",
        "is_told_short",
        "is_told_slow",
        "names",
        "source",
        "value",
    )

    def __init__(self, source: SecretSource) -> None:
        self.source = source
        self.names: set[str] = set()
        self.value: SourceValue | None = None
        """The last value from the source, good or not."""
        self.is_short = False
        """The value is too short to be scrubbed."""
        self.is_told_short = self.is_told_slow = False
        self.fault: EgressError | None = None
        """Cause of the last failed fetch."""
        self._confirmed = 0.0
        self._lifetimes: dict[int | None, ValueLifetime] = {}
        self._retry = 0.0
        self._revoked_by: set[str] = set()

    def secret_if_good(self, name: str, ttl: int | None, now: float) -> Secret | None:
        """Return the secret if its value is good."""
        # The end is absolute: failures never extend it.
        if self._revoked_by or self.value is None or now >= self._confirmed + self.lifetime(ttl).end:
            return None
        return self.value.secret_named(name)

    def is_due(self, ttl: int | None, now: float) -> bool:
        """Report whether the source should be asked now."""
        if now < self._retry or (self._revoked_by and self.source.mints):
            return False
        return self.value is None or now >= self._confirmed + self.lifetime(ttl).due

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        found = self._lifetimes.get(ttl)
        if found is None:
            found = self._lifetimes[ttl] = self.source.lifetime(ttl)
        return found

    def store(self, value: SourceValue, now: float) -> bool:
        """Store a value from the source; report whether it differs from the value before."""
        # An unchanged value keeps its compiled searches.
        is_new = self.value is None or not value.is_same(self.value)
        if is_new:
            self.value = value
            self.is_short = value.is_short
            self.is_told_short = False
        self._confirmed = now
        self._retry = 0.0
        self.fault = None
        return is_new

    def fail(self, fault: EgressError, retry: float) -> bool:
        """Note a failed fetch; report whether its cause is new."""
        is_news = self.fault is None or self.fault.message != fault.message
        self.fault = fault
        # The pause keeps every single request from asking a broken source again.
        self._retry = retry
        return is_news

    def revoke(self, name: str) -> bool:
        """Let no value be good until this name is restored; report whether that is new."""
        is_new = not self._revoked_by
        self._revoked_by.add(name)
        return is_new

    def restore(self, name: str) -> None:
        """Lift the revocation by this name. The source has to give or confirm its value first."""
        if name in self._revoked_by:
            self._revoked_by.discard(name)
            self.value = None
            self._retry = 0.0

    @property
    def confirmed(self) -> float | None:
        """Time at which the source last gave or confirmed the value; None without a usable value."""
        return None if self._revoked_by or self.value is None else self._confirmed

    @property
    def is_revoked(self) -> bool:
        return bool(self._revoked_by)
