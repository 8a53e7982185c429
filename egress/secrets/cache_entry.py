"""Cache of one source: its last value, how long that is good, and its last failure.

Theory of operation. A value is *good* from the moment its source gave or confirmed it until the end of its
lifetime, and no failure prolongs it. Late in that time it is *due*: the next use asks the source and goes on
with the good value meanwhile, so that a rotation has no gap and no request waits. After a failure the source
is not asked for a short while, whether the value is good or not.

A *revoked* value is never good, even if its source gives it again. It stays revoked after the source has
given another value: an old value that comes back is still revoked. Only `restore` lifts that.

Pure bookkeeping: no clock, no thread, no log. The resolver passes the time and logs.
"""

from __future__ import annotations

from egress.errors import EgressError, UnreadableError
from egress.secrets.source import SecretSource
from egress.secrets.source_value import SourceValue, ValueLifetime
from egress.types import Secret


class CacheEntry:
    """The cache of one source, identified by scheme and reference."""

    __slots__ = (
        "_confirmed",
        "_lifetimes",
        "_retry",
        "_revoked",
        "_revokes_next",
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
        self._revoked: list[SourceValue] = []
        self._revokes_next = False

    def secret_if_good(self, name: str, ttl: int | None, now: float) -> Secret | None:
        """Return the secret if its value is good."""
        # The end is absolute: failures never extend it.
        if self.value is None or now >= self._confirmed + self.lifetime(ttl).end:
            return None
        return self.value.secret_named(name)

    def is_due(self, ttl: int | None, now: float) -> bool:
        """Report whether the source should be asked now."""
        if now < self._retry:
            return False
        return self.value is None or now >= self._confirmed + self.lifetime(ttl).due

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        found = self._lifetimes.get(ttl)
        if found is None:
            found = self._lifetimes[ttl] = self.source.lifetime(ttl)
        return found

    def store(self, value: SourceValue, now: float) -> bool:
        """Store a value from the source; report whether it differs from the value before.

        Raises UnreadableError if the value is revoked.
        """
        # Revoked before any value was known: the first value is the revoked one.
        if self._revokes_next:
            self._revoked.append(value)
            self._revokes_next = False
        if any(value.is_same(revoked) for revoked in self._revoked):
            # The value before is given up as well: the source no longer stands behind it.
            self.value = None
            raise UnreadableError(
                "the value was revoked, and the source still gives it",
                "put another value at the source, or reload",
            )
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

    def revoke(self) -> None:
        """Stop using the value; if none is known yet, refuse the next value."""
        if self.value is None:
            self._revokes_next = True
            return
        # Kept for comparison: the source may go on giving the revoked value.
        self._revoked.append(self.value)
        self.value = None

    def restore(self) -> None:
        """Lift all revocations of this source."""
        self._revoked.clear()
        self._revokes_next = False
        self._retry = 0.0

    @property
    def confirmed(self) -> float | None:
        """Time at which the source last gave or confirmed the value; None without a value."""
        return None if self.value is None else self._confirmed

    @property
    def is_revoked(self) -> bool:
        return bool(self._revoked) or self._revokes_next
