"""Keep one collection of an identity map true: list it, watch it, and list it again after any doubt.

A watch that ends in good order goes on from its last version. Where the map remembers many deletions, which
it does until a list, it goes on from a list. Any other end is a doubt: an error, a version that is too old, a
connection that is silent. Then the map denies everybody until the next list.

A cluster without agent-sandbox answers 404 to its kinds: there is none of them, and they are asked for again
now and then. A kind that was there is taken to be gone only after several such answers, since an API server
that starts gives them too. Until then everybody is denied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlencode

from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi
from egress.cluster.streamed_get import ApiTimeouts, get
from egress.errors import ContentError, EgressError, reason_of
from egress.kubernetes.watch_events import (
    MAX_EVENT_BYTES,
    MAX_LISTED_OBJECTS,
    EventType,
    WatchedList,
    WatchedObject,
    WatchEvent,
    WatchKind,
    read_event,
    read_list,
)

WATCH_SECONDS: Final = 30
PAGE_OBJECTS: Final = 500
MAX_PAGE_BYTES: Final = 128 * 1024 * 1024
MIN_PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 30.0
MISSING_ANSWERS: Final = 5
"""Answers of 404 in a row after which a kind that was there is gone."""
API_PATHS: Final[dict[WatchKind, str]] = {
    WatchKind.PODS: "/api/v1",
    WatchKind.SANDBOXES: "/apis/agents.x-k8s.io/v1beta1",
    WatchKind.CLAIMS: "/apis/extensions.agents.x-k8s.io/v1beta1",
    WatchKind.TEMPLATES: "/apis/extensions.agents.x-k8s.io/v1beta1",
}


class WatchTaker(Protocol):
    """The part of an identity map that a watch feeds."""

    def apply(self, event: WatchEvent) -> frozenset[str]: ...
    def replace(self, listed: WatchedList) -> frozenset[str]: ...
    def lose(self, kind: WatchKind) -> None: ...
    def clear(self, kind: WatchKind) -> frozenset[str]: ...
    def is_list_due(self, kind: WatchKind) -> bool: ...


@dataclass(slots=True)
class CollectionWatch:
    """The watch of one collection in one namespace."""

    api: ClusterApi
    kind: WatchKind
    taker: WatchTaker
    cut: Callable[[frozenset[str]], None]
    """Told of the pods whose connections have to be cut."""
    note: Callable[[str], None]
    """Told why a watch was lost."""
    timeouts: ApiTimeouts = field(default_factory=ApiTimeouts)
    pause: float = MIN_PAUSE_SECONDS
    missing_pause: float = MAX_PAUSE_SECONDS
    """Seconds until a kind is asked for again that the cluster does not know."""
    lost: int = 0
    """How often it was lost."""
    heard: float | None = None
    """When the API server last sent anything for it, by the clock of the event loop; None if it never has."""
    _was_there: bool = False
    _missing: int = 0
    """Answers of 404 in a row."""

    async def run(self) -> None:
        """Watch until the task is cancelled."""
        wait = self.pause
        while True:
            try:
                version = await self._list()
                wait = self.pause
                self._was_there, self._missing = True, 0
                while True:
                    version = await self._watch(version)
                    if self.taker.is_list_due(self.kind):
                        version = await self._list()
            except ApiRefusedError as error:
                if error.status == 404 and self._is_missing():
                    wait = self.missing_pause
                else:
                    self._lose(error)
            except (EgressError, OSError, asyncio.IncompleteReadError) as error:
                self._lose(error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_PAUSE_SECONDS)

    def _lose(self, error: Exception) -> None:
        # The map first: whoever asks while this task waits is denied.
        self.taker.lose(self.kind)
        self.lost += 1
        reason = error.message if isinstance(error, EgressError) else reason_of(error)
        self.note(f"the watch of {self.kind} is lost: {reason}")

    def _is_missing(self) -> bool:
        """Decide whether the cluster does not know the kind, and tell the map so."""
        self._missing += 1
        # Every cluster has pods.
        if self.kind is WatchKind.PODS or (self._was_there and self._missing < MISSING_ANSWERS):
            return False
        if self._was_there or self._missing == 1:
            self.note(f"this cluster has no {self.kind}")
        self._was_there = False
        self._tell(self.taker.clear(self.kind))
        return True

    async def _list(self) -> int:
        """List the collection, page by page, as one version of it."""
        objects: list[WatchedObject] = []
        more, version = "", 0
        while True:
            page = read_list(self.kind, await self._page(more))
            self._hear()
            objects += page.objects
            version = page.version
            if len(objects) > MAX_LISTED_OBJECTS:
                raise ContentError(f"more than {MAX_LISTED_OBJECTS} {self.kind}", "use more namespaces")
            if not page.more:
                break
            more = page.more
        self._tell(self.taker.replace(WatchedList(self.kind, version, tuple(objects))))
        return version

    async def _page(self, more: str) -> bytes:
        query = {"limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        data = bytearray()
        async with get(self.api, self._path(query), self.timeouts) as body:
            async for piece in body:
                data += piece
                if len(data) > MAX_PAGE_BYTES:
                    raise ContentError(f"a page of {self.kind} is too long", "use smaller objects")
        return bytes(data)

    async def _watch(self, version: int) -> int:
        """Take events until the API server ends the watch; return the version to go on from."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(version),
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        rest = bytearray()
        async with get(self.api, self._path(query), self.timeouts) as body:
            async for piece in body:
                self._hear()
                rest += piece
                lines: list[bytearray] = []
                if b"\n" in piece:
                    *lines, rest = rest.split(b"\n")
                if len(rest) > MAX_EVENT_BYTES:
                    raise ContentError(f"an event of {self.kind} is too long", "use smaller objects")
                for line in lines:
                    version = max(version, self._take(bytes(line)))
        if rest:
            raise ContentError(f"the last event of {self.kind} is cut short", "watch again")
        self._hear()
        return version

    def _hear(self) -> None:
        self.heard = asyncio.get_running_loop().time()

    def _take(self, line: bytes) -> int:
        event = read_event(self.kind, line)
        if event.type is EventType.ERROR:
            raise ContentError(f"the API server ends the watch with {event.code}", "list again")
        self._tell(self.taker.apply(event))
        return event.object.metadata.version if event.object else event.version

    def _tell(self, pods: frozenset[str]) -> None:
        if pods:
            self.cut(pods)

    def _path(self, query: dict[str, str]) -> str:
        return f"{self.api.namespaced(self.kind, base=API_PATHS[self.kind])}?{urlencode(query)}"
