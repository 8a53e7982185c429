"""Secrets of the cluster: one key of a Secret, read by the API and kept in memory by a watch.

The source asks the watch and not the API server, so a fetch costs nothing. The watch tells the resolver of
every change, which uses the value before for no further request. While nobody watches, the last value is
used for its lifetime: a key that is revoked in that time is not noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from egress.secrets.source_value import SourceValue, ValueLifetime

POLL_INTERVAL: Final = 1.0
"""Seconds between two looks at the watch while the secret is in use."""
DEFAULT_TTL: Final = 300.0
"""Seconds for which the last value is used while the API server cannot be watched."""


class ClusterSecrets(Protocol):
    """The Secrets of the namespace of this pod."""

    def watch(self, name: str, changed: Callable[[str], None]) -> None:
        """Watch a Secret from now on, and tell of each change by its name. On the event loop's thread."""

    def keep(self, names: frozenset[str]) -> None:
        """Watch no other Secrets than these any more. On the event loop's thread."""

    def value(self, name: str, key: str) -> bytes:
        """Return the value of one key; may block. Raises `UnreadableError`, never with a value in it."""


class ClusterSecretSource:
    """One key of one Secret."""

    __slots__ = ("_key", "_name", "_secrets")

    def __init__(self, secrets: ClusterSecrets, name: str, key: str) -> None:
        self._secrets = secrets
        self._name = name
        self._key = key

    @property
    def mints(self) -> bool:
        return False

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        end = DEFAULT_TTL if ttl is None else float(ttl)
        return ValueLifetime(due=min(POLL_INTERVAL, 0.8 * end), end=end)

    def fetch(self) -> SourceValue:
        return SourceValue(self._secrets.value(self._name, self._key))

    def stop(self) -> None:
        """Do nothing: the wait for the first answer of the API server is short."""
