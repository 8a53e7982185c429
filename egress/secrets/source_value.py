"""One value as a source gave it, with what is derived from it; it does not show itself.

Names are given to values and not the other way round: two secrets of two policies may come from one
source. Must not offer the bytes to anybody; what leaves this file is a checked `Secret`, or spellings to
search for.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple, Never

from egress.credentials import secret_from
from egress.scrub import MIN_SECRET_BYTES, Needles, spellings
from egress.types import Secret


class SourceValue:
    """Bytes from a source, not checked before they are named."""

    __slots__ = ("_needles", "_raw", "_secrets", "_spellings", "is_short")

    def __init__(self, raw: bytes) -> None:
        # Surrounding whitespace is no part of a credential: see `secret_from`, which strips as well.
        self._raw = raw.strip()
        self._secrets: dict[str, Secret] = {}
        self._spellings: frozenset[bytes] | None = None
        self._needles: dict[str, Needles] = {}
        self.is_short = len(self._raw) < MIN_SECRET_BYTES
        """It is too short to be told from innocent text, and so cannot be scrubbed."""

    def secret_named(self, name: str) -> Secret:
        """Return the secret of this name and value, always the same object.

        Raises SecretValueError, which never shows the value, when it is none that may be sent.
        """
        secret = self._secrets.get(name)
        if secret is None:
            secret = self._secrets[name] = secret_from(name, self._raw)
        return secret

    @property
    def spellings(self) -> frozenset[bytes]:
        """What is searched for in responses and logs; nothing for a short value. Takes about 1 ms once."""
        if self._spellings is None:
            self._spellings = frozenset() if self.is_short else spellings(Secret("", self._raw))
        return self._spellings

    def needles(self, name: str) -> Needles:
        """Return what finds this value under this name, always the same object.

        Takes some ms once, and the tenth of a second for a value of some KB.
        """
        needles = self._needles.get(name)
        if needles is None:
            needles = self._needles[name] = Needles(dict.fromkeys(self.spellings, (name,)))
        return needles

    def is_same(self, other: SourceValue) -> bool:
        """Whether the other one is the same credential."""
        return self._raw == other._raw

    def occurs_in(self, text: str) -> bool:
        """Whether the text holds this value; a short value counts only when it is the whole text."""
        data = os.fsencode(text)
        return self._raw == data if self.is_short else self._raw in data

    def __repr__(self) -> str:
        return "Value(***)"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a secret value is not to be pickled or copied")


# How long a value may be used after its source has confirmed it.
class ValueLifetime(NamedTuple):
    """Seconds since the source last gave or confirmed the value."""

    due: float
    """From here on the next use asks the source again, and goes on with the value meanwhile."""
    end: float
    """From here on the value is not used any more, whatever the source does."""


ENDLESS_LIFETIME = ValueLifetime(math.inf, math.inf)
