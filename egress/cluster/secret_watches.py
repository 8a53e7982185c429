"""The Secrets that the rules name, each watched by its name and kept in memory.

The role of the proxy needs `get` and `watch` on these Secrets by their names, and no list: it cannot read
any other Secret of the namespace.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from egress.cluster.api_server import ClusterApi
from egress.cluster.object_watch import MIN_PAUSE_SECONDS, ObjectWatch
from egress.cluster.secret_value import value_of
from egress.cluster.streamed_get import ApiTimeouts
from egress.errors import UnreadableError
from egress.kubernetes.named_object import NamedObject

FIRST_ANSWER_SECONDS: Final = 4.0
"""How long the first use of a Secret waits for the API server."""
_HINT: Final = "let the service account of this pod get and watch the Secret; the program's log has the cause"


@dataclass(slots=True)
class _WatchedSecret:
    found: NamedObject | None = field(default=None, repr=False)
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the API server has said what there is, or that it does not tell."""
    lost: str = ""
    """Why nobody watches for the moment."""
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class SecretWatches:
    """Watches of Secrets in the namespace of this pod."""

    api: ClusterApi
    note: Callable[[str], None]
    """Told why a watch was lost; the text has the name of the Secret."""
    timeouts: ApiTimeouts = field(default_factory=ApiTimeouts)
    pause: float = MIN_PAUSE_SECONDS
    _watched: dict[str, _WatchedSecret] = field(default_factory=dict, init=False, repr=False)

    def watch(self, name: str, changed: Callable[[str], None]) -> None:
        """Watch a Secret from now on, and tell of each change by its name."""
        if name in self._watched:
            return
        watched = self._watched[name] = _WatchedSecret()

        def take(found: NamedObject | None) -> None:
            before, watched.found, watched.lost = watched.found, found, ""
            is_first = not watched.answered.is_set()
            watched.answered.set()
            if is_first or _version(before) != _version(found):
                changed(name)

        def lose(reason: str) -> None:
            watched.lost = reason
            watched.answered.set()
            self.note(reason)

        def ended(task: asyncio.Task[None]) -> None:
            # Never by itself, unless there is a bug: then the value must not stay for ever.
            if not task.cancelled() and (error := task.exception()) is not None:
                lose(f"secrets/{name} is not watched: {type(error).__name__}")

        run = ObjectWatch(self.api, "secrets", name, take, lose, self.timeouts, self.pause).run()
        watched.task = asyncio.get_running_loop().create_task(run)
        watched.task.add_done_callback(ended)

    def keep(self, names: frozenset[str]) -> None:
        """Watch no other Secrets than these any more, and forget their values."""
        for name in self._watched.keys() - names:
            watched = self._watched.pop(name)
            if watched.task is not None:
                watched.task.cancel()

    def value(self, name: str, key: str) -> bytes:
        """Return the value of a key; blocks until the API server has answered. Raises `UnreadableError`."""
        watched = self._watched.get(name)
        if watched is None:
            raise UnreadableError(f"the Secret {name} is not watched", "the rules do not name it any more")
        if not watched.answered.wait(FIRST_ANSWER_SECONDS):
            raise UnreadableError(f"the API server has not told the Secret {name} yet", _HINT)
        if watched.lost:
            raise UnreadableError(watched.lost, _HINT)
        return value_of(watched.found, name, key)


def _version(found: NamedObject | None) -> tuple[str, str] | None:
    return None if found is None else (found.metadata.uid, found.metadata.resource_version)
