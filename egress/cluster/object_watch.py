"""Follow one ConfigMap or Secret by its name: read it, watch it, and read it again after each end of a watch.

Two verbs on this one object are enough, `get` and `watch`: nothing is listed. Whoever takes the object keeps
the last one while the API server cannot be reached, and is told that nobody watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlencode

from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi
from egress.cluster.streamed_get import ApiTimeouts, get
from egress.errors import ContentError, EgressError, reason_of
from egress.kubernetes.named_object import (
    MAX_OBJECT_BYTES,
    NamedObject,
    read_named_object,
    read_object_event,
)
from egress.kubernetes.watch_events import EventType

WATCH_SECONDS: Final = 30
MIN_PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 10.0


@dataclass(slots=True)
class ObjectWatch:
    """The watch of one object in the namespace of this pod."""

    api: ClusterApi
    resource: Literal["configmaps", "secrets"]
    name: str
    take: Callable[[NamedObject | None], None]
    """Given the object at each change, and each time it is read again; None where there is none."""
    lose: Callable[[str], None]
    """Told why nobody watches for the moment."""
    timeouts: ApiTimeouts = field(default_factory=ApiTimeouts)
    pause: float = MIN_PAUSE_SECONDS

    async def run(self) -> None:
        """Follow it until the task is cancelled."""
        wait = self.pause
        while True:
            try:
                version = await self._read()
                wait = self.pause
                await self._watch(version)
            except (EgressError, OSError, asyncio.IncompleteReadError) as error:
                reason = error.message if isinstance(error, EgressError) else reason_of(error)
                self.lose(f"{self.resource}/{self.name} is not watched: {reason}")
                await asyncio.sleep(wait)
                wait = min(2 * wait, MAX_PAUSE_SECONDS)
            else:
                # A server that ends each watch at once is not asked without a pause.
                await asyncio.sleep(self.pause)

    async def _read(self) -> str:
        """Take the object as it is now; return the version to watch from, empty where there is none."""
        data = bytearray()
        try:
            async with get(self.api, self.api.namespaced(self.resource, self.name), self.timeouts) as body:
                async for piece in body:
                    data += piece
                    if len(data) > MAX_OBJECT_BYTES:
                        raise self._too_long()
        except ApiRefusedError as error:
            if error.status != 404:
                raise
            self.take(None)
            return ""
        found = read_named_object(bytes(data))
        self.take(found)
        return found.metadata.resource_version

    async def _watch(self, version: str) -> None:
        """Take changes until the API server ends the watch."""
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self.name}",
            "timeoutSeconds": str(WATCH_SECONDS),
            # Without a version the watch begins with what is there.
            **({"resourceVersion": version} if version else {}),
        }
        rest = bytearray()
        async with get(
            self.api, f"{self.api.namespaced(self.resource)}?{urlencode(query)}", self.timeouts
        ) as body:
            async for piece in body:
                rest += piece
                lines: list[bytearray] = []
                if b"\n" in piece:
                    *lines, rest = rest.split(b"\n")
                if len(rest) > MAX_OBJECT_BYTES:
                    raise self._too_long()
                for line in lines:
                    self._take(bytes(line))
        if rest:
            raise ContentError("the last event is cut short", "watch again")

    def _take(self, line: bytes) -> None:
        event, found = read_object_event(line)
        if found is None:
            return
        # A server without field selectors would send every object of the namespace.
        if found.metadata.name != self.name:
            raise ContentError(
                "the API server sends another object", "use an API server with field selectors"
            )
        self.take(None if event is EventType.DELETED else found)

    def _too_long(self) -> ContentError:
        return ContentError(f"{self.resource}/{self.name} is too long", "keep it below 1 MiB")
