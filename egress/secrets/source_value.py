"""A value from a source, with the data derived from it, and the cache of that source. It never shows itself.

Names are given to values and not the other way round: two secrets of two policies may share a source. Must
not offer the bytes to any caller: only a checked `Secret`, or spellings to search for, leave this module.

The cache. A value is *good* from the moment its source gave or confirmed it until the end of its
lifetime, and no failure prolongs it. Late in that time it is *due*: the next use asks the source and goes on
with the good value meanwhile, so that a rotation has no gap and no request waits. After a failure the source
is not asked for a short while, whether the value is good or not.

A source is *revoked* by the name of a secret. Then none of its values is good, whatever it gives and whoever
names it, until every name that revoked it is restored. Its values are still searched for, but a source that
makes a value for each fetch is not asked.

Pure bookkeeping: no clock, no thread, no log. The resolver passes the time and logs.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple, Never, Protocol

from egress.credentials import secret_from
from egress.errors import EgressError
from egress.scrub import MIN_SECRET_BYTES, Needles, spellings
from egress.types import Secret


class SourceValue:
    """Bytes from a source, checked only when they get a name."""

    __slots__ = ("_needles", "_raw", "_secrets", "_spellings", "is_short")

    def __init__(self, raw: bytes) -> None:
        # Surrounding whitespace is no part of a credential: see `secret_from`, which strips as well.
        self._raw = raw.strip()
        self._secrets: dict[str, Secret] = {}
        self._spellings: frozenset[bytes] | None = None
        self._needles: dict[str, Needles] = {}
        self.is_short = len(self._raw) < MIN_SECRET_BYTES
        """Too short to be told from innocent text, so it cannot be scrubbed."""

    @property
    def is_empty(self) -> bool:
        """Nothing but whitespace."""
        return not self._raw

    def secret_named(self, name: str) -> Secret:
        """Return the secret with this name and value, always the same object.

        Raises SecretValueError, which never shows the value, if the value must not be sent.
        """
        secret = self._secrets.get(name)
        if secret is None:
            secret = self._secrets[name] = secret_from(name, self._raw)
        return secret

    @property
    def spellings(self) -> frozenset[bytes]:
        """Return the spellings searched for in responses and logs; empty if short. Takes 1 ms once."""
        if self._spellings is None:
            self._spellings = frozenset() if self.is_short else spellings(Secret("", self._raw))
        return self._spellings

    def needles(self, name: str) -> Needles:
        """Return the search for this value under this name, always the same object.

        Takes some ms once, and a tenth of a second for a value of some KB.
        """
        needles = self._needles.get(name)
        if needles is None:
            needles = self._needles[name] = Needles(dict.fromkeys(self.spellings, (name,)))
        return needles

    def is_same(self, other: SourceValue) -> bool:
        """Report whether the other value is the same credential."""
        return self._raw == other._raw

    def occurs_in(self, text: str) -> bool:
        """Report whether the text contains this value; a short value only counts as the whole text."""
        data = os.fsencode(text)
        return self._raw == data if self.is_short else self._raw in data

    def __repr__(self) -> str:
        return "Value(***)"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a secret value must not be pickled or copied")


class ValueLifetime(NamedTuple):
    """Lifetime of a value, in seconds since its source last gave or confirmed it."""

    due: float
    """From here on the next use asks the source again, and goes on with the value meanwhile."""
    end: float
    """From here on the value is not used any more, even if the source fails."""


ENDLESS_LIFETIME = ValueLifetime(math.inf, math.inf)


class SecretSource(Protocol):
    """A source that can be asked for a value, again and again."""

    @property
    def mints(self) -> bool:
        """Each fetch may make a value that was not there before, so it is not done without need."""

    def fetch(self) -> SourceValue:
        """Return the current value; may block. Raises UnreadableError, never with a value in it."""

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        """Return how long a value may be used; `ttl` comes from the rules."""

    def stop(self) -> None:
        """Interrupt a fetch in another thread, if the source can."""


class CacheEntry:
    """The cache of one source, identified by scheme and reference."""

    __slots__ = (
        "_confirmed",
        "_is_outdated",
        "_lifetimes",
        "_retry",
        "_revoked_by",
        "fault",
        "is_short",
        "is_told_short",
        "is_told_slow",
        "names",
        "source",
        "turn",
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
        self.turn = 0
        """Grows when the source says that its value is another one: a fetch from before does not count."""
        self._confirmed = 0.0
        self._is_outdated = False
        self._lifetimes: dict[int | None, ValueLifetime] = {}
        self._retry = 0.0
        self._revoked_by: set[str] = set()

    def secret_if_good(self, name: str, ttl: int | None, now: float) -> Secret | None:
        """Return the secret if its value is good."""
        # The end is absolute: failures never extend it.
        if self._revoked_by or self._is_outdated or self.value is None:
            return None
        if now >= self._confirmed + self.lifetime(ttl).end:
            return None
        return self.value.secret_named(name)

    def is_due(self, ttl: int | None, now: float) -> bool:
        """Report whether the source should be asked now."""
        if now < self._retry or (self._revoked_by and self.source.mints):
            return False
        if self.value is None or self._is_outdated:
            return True
        return now >= self._confirmed + self.lifetime(ttl).due

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
        self._is_outdated = False
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

    def outdate(self) -> None:
        """Let the value not be good until the source has given or confirmed it again."""
        self.turn += 1
        self._is_outdated = True
        self._retry = 0.0

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
        is_usable = not self._revoked_by and not self._is_outdated and self.value is not None
        return self._confirmed if is_usable else None

    @property
    def is_revoked(self) -> bool:
        return bool(self._revoked_by)
