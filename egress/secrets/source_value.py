"""A value from a source, with the data derived from it; it does not show itself.

Names are given to values and not the other way round: two secrets of two policies may share a source. Must
not offer the bytes to any caller: only a checked `Secret`, or spellings to search for, leave this module.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple, Never

from egress.credentials import secret_from
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
