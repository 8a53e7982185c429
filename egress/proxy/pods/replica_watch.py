"""Compare this replica of the gateway with the others, every two seconds.

The cluster says which pods they are: those of the same controller. Each answers at its port for readiness,
over which nothing is changed. A replica that is behind for too long is not ready until it has caught up, and
says so in its log and in an Event on its pod. So does a replica that does not reach another one, which stays
ready.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from egress.cluster.event_writer import ClusterEvent, EventWriter, ObjectReference
from egress.errors import EgressError, WireError, reason_of
from egress.http1 import Data, End, MessageLimits, ResponseHead, ResponseReader
from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.replica_lag import Behind, ReplicaLag
from egress.kubernetes.replica_reach import ReplicaReach, SilentReplica
from egress.kubernetes.replica_report import (
    MAX_REPORT_BYTES,
    REPLICA_PATH,
    RULES,
    ReplicaReport,
    RulesVersion,
    encode_report,
    read_report,
)
from egress.kubernetes.watch_events import Address, WatchKind
from egress.proxy.clock import Clock
from egress.proxy.setting_values import ListenAddress

POLL_INTERVAL: Final = 2.0
_ANSWER_TIMEOUT: Final = 2.0
_MAX_REPLICAS: Final = 16
_LIMITS: Final = MessageLimits(head=8 * 1024)

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ReplicaWatch:
    """This replica beside the others."""

    name: str
    """The name of this pod."""
    at: ListenAddress
    """Where this replica tells its readiness; the others have the same port."""
    identities: IdentityMap
    events: EventWriter
    digest: Callable[[], str]
    """The digest of the rules in force."""
    rules: Callable[[], RulesVersion | None]
    """The version of these rules; None if they come from files."""
    clock: Clock
    lag: ReplicaLag
    reach: ReplicaReach = field(default_factory=ReplicaReach)
    silent: tuple[SilentReplica, ...] = field(default=(), init=False)
    """The replicas that this one is not compared with, because they give no report."""
    _behind: tuple[Behind, ...] = field(default=(), init=False)
    _asked: int = field(default=0, init=False)

    async def run(self) -> None:
        """Compare until the task is cancelled."""
        while True:
            peers = self.identities.siblings(self.name)
            is_v6 = ":" in self.at.host
            near = sorted((each for each in peers if (each.version == 6) is is_v6), key=int)[:_MAX_REPLICAS]
            await asyncio.gather(*map(self._ask, near))
            self.reach.keep([str(each) for each in near])
            self._asked = len(near)
            self._judge(self.lag.behind(self.clock.monotonic()))
            self._judge_reach(self.reach.silent(self.clock.monotonic()))
            await asyncio.sleep(POLL_INTERVAL)

    def report(self, *, ready: bool) -> str:
        """Return the report for the other replicas."""
        rules = self.rules()
        told = {kind.value: self.identities.changed(kind) for kind in WatchKind}
        told |= {} if rules is None else {RULES: rules.version}
        taken = 0 if rules is None else rules.taken
        return encode_report(ReplicaReport(self.name, ready, self.digest(), taken, told))

    def problems(self) -> list[str]:
        """Why this replica must not serve beside the others; empty if it may."""
        return [
            f"{each.replica} knows newer {each.subject} for more than {self.lag.patience:g} seconds"
            for each in self._behind
        ]

    @property
    def compared(self) -> int:
        """The number of other replicas that are not silent."""
        return self._asked - len(self.silent)

    async def _ask(self, address: Address) -> None:
        """Hear one replica; whatever goes wrong, it is a replica that says nothing."""
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT):
                report = read_report(await _get(ListenAddress(str(address), self.at.port)))
        except TimeoutError:
            cause = f"no answer within {_ANSWER_TIMEOUT:g} seconds"
        except OSError as error:
            # The loop puts the address in the place of the system's words.
            cause = os.strerror(error.errno).lower() if error.errno else reason_of(error)
        except EgressError as error:
            cause = error.message
        else:
            if report.replica != self.name:
                self.reach.hear(str(address))
                self.lag.hear(report, self._known_beside(report), self.clock.monotonic())
                return
            cause = "it has the name of this replica"
        self.reach.miss(str(address), cause, self.clock.monotonic())

    def _known_beside(self, report: ReplicaReport) -> dict[str, int]:
        """Return the versions that this replica knows, in the eyes of another one."""
        known = {kind.value: self.identities.reached(kind) for kind in WatchKind}
        rules, told = self.rules(), report.versions.get(RULES, 0)
        # Equal rules are no disagreement, whichever version of the ConfigMap they come from.
        is_equal = rules is None or report.digest == self.digest()
        return known | {RULES: told if is_equal or rules is None else rules.version}

    def _judge(self, behind: tuple[Behind, ...]) -> None:
        if behind == self._behind:
            return
        before, self._behind = self._behind, behind
        why = "; ".join(self.problems())
        if behind:
            _log.warning(
                "replica.behind",
                cause=why,
                policy=self.digest()[:12],
                hint="see whether its watches are lost",
            )
            said = f"not ready: {why}; rules in force: {self.digest()[:12]}"
            self._tell("ReplicaBehind", said, is_warning=True)
        elif before:
            _log.info("replica.agrees", policy=self.digest()[:12])
            self._tell("ReplicaAgrees", f"the replicas agree again on the rules {self.digest()[:12]}")

    def _judge_reach(self, silent: tuple[SilentReplica, ...]) -> None:
        before, self.silent = self.silent, silent
        # A silence that has another cause now is the same one.
        if [each.address for each in silent] == [each.address for each in before]:
            return
        why = ", ".join(map(str, silent))
        if silent:
            hint = f"let the pods of the gateway reach each other at the port {self.at.port}"
            _log.warning("replica.silent", cause=why, hint=hint)
            self._tell("ReplicaSilent", f"not compared with {why}: {hint}", is_warning=True)
        else:
            _log.info("replica.heard", compared=self.compared)
            self._tell("ReplicaHeard", "every other replica is compared with again")

    def _tell(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        for pod in self.identities.pods_named(self.name):
            about = ObjectReference("Pod", pod.metadata.name, pod.metadata.uid)
            self.events.tell(ClusterEvent(about, reason, message, "Warning" if is_warning else "Normal"))


async def _get(at: ListenAddress) -> bytes:
    """Read the report of a replica. Raises `OSError`, and `WireError` for anything but a short success."""
    reader, writer = await asyncio.open_connection(at.host, at.port, limit=MAX_REPORT_BYTES)
    try:
        writer.write(f"GET {REPLICA_PATH} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n".encode())
        response, body = ResponseReader(_LIMITS), bytearray()
        response.expect("GET")
        while True:
            data = await reader.read(MAX_REPORT_BYTES)
            for event in response.feed(data) if data else response.eof():
                if isinstance(event, ResponseHead) and event.status != 200:
                    raise WireError("A replica answers without a report.")
                if isinstance(event, Data):
                    body += event.data
                if isinstance(event, End):
                    return bytes(body)
            if not data or len(body) > MAX_REPORT_BYTES:
                raise WireError("The report of a replica has no end.")
    finally:
        writer.transport.abort()
