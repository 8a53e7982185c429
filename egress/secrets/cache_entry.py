"""What is held of one source: its last value, how long that is good, and what went wrong.

Theory of operation. A value is *good* from the moment its source gave or confirmed it until the end of its
lifetime, and not a moment longer: no failure prolongs it. Late in that time it is *due*: the next use asks
the source and goes on with the good value meanwhile, so that a rotation has no gap and nobody waits. When a
source fails, it is left alone for a short while, good value or not.

A *revoked* value is not good, however often its source gives it again. It stays so until the source gives
another one, and beyond: an old value that comes back is still revoked. `pardon` is the way out.

Pure bookkeeping: no clock, no thread, no log. The resolver brings the time and tells what happened.
"""

from __future__ import annotations

from egress.errors import EgressError, UnreadableError
from egress.secrets.source import SecretSource
from egress.secrets.source_value import SourceValue, ValueLifetime
from egress.types import Secret


class CacheEntry:
    """One source, keyed by its scheme and reference."""

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
        """The last one that the source gave, good or not."""
        self.is_short = False
        """The value is too short to be scrubbed."""
        self.is_told_short = self.is_told_slow = False
        self.fault: EgressError | None = None
        """Why the last look brought nothing."""
        self._confirmed = 0.0
        self._lifetimes: dict[int | None, ValueLifetime] = {}
        self._retry = 0.0
        self._revoked: list[SourceValue] = []
        self._revokes_next = False

    def secret_if_good(self, name: str, ttl: int | None, now: float) -> Secret | None:
        """Return the secret while its value is good."""
        if self.value is None or now >= self._confirmed + self.lifetime(ttl).end:
            return None
        return self.value.secret_named(name)

    def is_due(self, ttl: int | None, now: float) -> bool:
        """Whether the source should be asked now."""
        if now < self._retry:
            return False
        return self.value is None or now >= self._confirmed + self.lifetime(ttl).due

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        found = self._lifetimes.get(ttl)
        if found is None:
            found = self._lifetimes[ttl] = self.source.lifetime(ttl)
        return found

    def store(self, value: SourceValue, now: float) -> bool:
        """Note what the source gave; say whether it is another value than before.

        Raises UnreadableError when it was revoked.
        """
        if self._revokes_next:
            self._revoked.append(value)
            self._revokes_next = False
        if any(value.is_same(revoked) for revoked in self._revoked):
            self.value = None
            raise UnreadableError(
                "the value was revoked, and the source still gives it",
                "put another value at the source, or reload",
            )
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
        """Note that a look brought nothing; say whether that is news."""
        is_news = self.fault is None or self.fault.message != fault.message
        self.fault = fault
        self._retry = retry
        return is_news

    def revoke(self) -> None:
        """Stop using the value; when none is known yet, the next one."""
        if self.value is None:
            self._revokes_next = True
            return
        self._revoked.append(self.value)
        self.value = None

    def restore(self) -> None:
        """Forget what was revoked."""
        self._revoked.clear()
        self._revokes_next = False
        self._retry = 0.0

    @property
    def confirmed(self) -> float | None:
        """When the source last gave or confirmed the value that is held; None where there is none."""
        return None if self.value is None else self._confirmed

    @property
    def is_revoked(self) -> bool:
        return bool(self._revoked) or self._revokes_next
