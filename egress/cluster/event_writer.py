"""Write Events to objects of the cluster: what a person sees with `kubectl describe`.

An Event is told, and never waited for: one that cannot be written is dropped. The audit log and the
program's log have the same fact, and nothing of the proxy depends on an Event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from egress.cluster.api_call import CallTimeouts, call
from egress.cluster.api_server import ClusterApi
from egress.errors import EgressError
from egress.logger import EventLogger

_log = EventLogger(__name__)

MAX_WAITING_EVENTS: Final = 32
MAX_MESSAGE_CHARS: Final = 1000
"""The API server refuses messages of more than 1,024 bytes."""
_TIMEOUTS: Final = CallTimeouts(connect=5.0, answer=5.0)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an Event is about."""

    kind: str
    name: str
    uid: str
    api_version: str = "v1"
    version: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One Event; the message holds names and never a value."""

    about: ObjectReference
    reason: str
    """One word in capitals and small letters, as Kubernetes writes reasons."""
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(slots=True)
class EventWriter:
    """The Events that this process writes, one after the other."""

    api: ClusterApi
    replica: str
    """The name of this pod, which each Event carries."""
    note: Callable[[str], None]
    """Told why an Event could not be written."""
    now: Callable[[], int]
    """UTC seconds."""
    _waiting: asyncio.Queue[ClusterEvent] = field(
        default_factory=lambda: asyncio.Queue(MAX_WAITING_EVENTS), init=False
    )

    def tell(self, event: ClusterEvent) -> None:
        """Write an Event soon, or never. Never raises."""
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            self.note("too many Events wait")

    async def run(self) -> None:
        """Write until the task is cancelled."""
        path = self.api.namespaced("events")
        while True:
            event = await self._waiting.get()
            try:
                await asyncio.to_thread(call, self.api, "POST", path, self._content(event), _TIMEOUTS)
            except EgressError as error:
                self.note(error.message)

    def _content(self, event: ClusterEvent) -> dict[str, object]:
        about, namespace = event.about, self.api.namespace
        moment = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        version = {"resourceVersion": about.version} if about.version else {}
        named = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
        return {
            "metadata": {"generateName": "egress-", "namespace": namespace},
            "involvedObject": {**named, "namespace": namespace, **version},
            "type": event.type,
            "reason": event.reason,
            "message": _cut(event.message),
            "source": {"component": "egress", "host": self.replica},
            # Both generations of the API: older programs show the source, newer ones these two.
            "reportingComponent": "egress",
            "reportingInstance": self.replica,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }


def open_event_writer(api: ClusterApi, replica: str, now: Callable[[], int]) -> EventWriter:
    """Return a writer that logs what it cannot write."""

    def note(cause: str) -> None:
        _log.warning("event.unwritten", cause=cause, hint="the service account may need create on events")

    return EventWriter(api, replica, note, now)


def _cut(message: str) -> str:
    data = "".join(each if each.isprintable() else " " for each in message).encode("utf-8", "replace")
    return data[:MAX_MESSAGE_CHARS].decode("utf-8", "ignore")
