"""Join the parts of a proxy in a cluster: the watches, the identities of pods, and their sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from egress.cluster.api_server import ClusterApi, cluster_of_pod
from egress.cluster.collection_watch import CollectionWatch
from egress.cluster.event_writer import EventWriter, open_event_writer
from egress.cluster.pod_lookup import PodLookup
from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.pod_identity import REPLICA_VARIABLE
from egress.kubernetes.replica_lag import ReplicaLag
from egress.kubernetes.replica_report import RulesVersion
from egress.kubernetes.watch_events import EventType, WatchedObject, WatchEvent, WatchKind
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.pods.node_gateway import read_gateways
from egress.proxy.pods.pod_sandboxes import PodSandboxes
from egress.proxy.pods.pod_tickets import PodTickets
from egress.proxy.pods.refusal_events import RefusalEvents
from egress.proxy.pods.replica_watch import ReplicaWatch
from egress.proxy.setting_values import ListenAddress
from egress.telemetry.metric_families import MetricFamily, by_label
from egress.types import Workload


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The cluster, as the proxy knows it."""

    api: ClusterApi
    identities: IdentityMap
    sandboxes: PodSandboxes
    events: EventWriter
    tickets: PodTickets
    _running: list[CollectionWatch] = field(default_factory=list)
    _replicas: list[ReplicaWatch] = field(default_factory=list)

    def watches(self, note: Callable[[str], None]) -> tuple[CollectionWatch, ...]:
        """Make the watches, which run until they are cancelled; `note` is told why one was lost."""
        made = tuple(
            CollectionWatch(self.api, kind, self.identities, self.sandboxes.cut, note) for kind in WatchKind
        )
        self._running[:] = made
        return made

    def families(self, now: float) -> Iterator[MetricFamily]:
        """Yield the metrics of the watches; `now` is the time of the event loop."""
        current = {kind.value: self.identities.is_kind_current(kind) for kind in WatchKind}
        told = "Whether all objects of this kind are known, and the watch of them is not lost."
        yield by_label("watch_current", told, "kind", current, "gauge")
        lost = {watch.kind.value: watch.lost for watch in self._running}
        yield by_label("watch_lost_total", "Watches that were lost.", "kind", lost)
        silent = {each.kind.value: now - each.heard for each in self._running if each.heard is not None}
        heard = "Since the API server sent anything for the watch."
        yield by_label("watch_silence_seconds", heard, "kind", silent, "gauge")
        for each in self._replicas:
            states = {"compared": each.compared, "silent": len(each.silent)}
            told = "Other replicas of the gateway; with a silent one this replica is not compared."
            yield by_label("replicas", told, "state", states, "gauge")

    def replicas(self) -> dict[str, object]:
        """Return how the other replicas answer, for the status; empty where none is asked."""
        for each in self._replicas:
            silent = [str(replica) for replica in each.silent]
            return {"replicas": {"compared": each.compared, "silent": silent}}
        return {}

    def problems(self) -> list[str]:
        """Why it cannot be told whose a connection is; empty if it can."""
        if not self.identities.is_current:
            return ["the pods of the cluster are not known"]
        return [problem for each in self._replicas for problem in each.problems()]

    def compare(
        self,
        engine: ProxyEngine,
        at: ListenAddress,
        patience: float,
        rules: Callable[[], RulesVersion | None],
    ) -> ReplicaWatch:
        """Make the comparison with the other replicas, which runs until it is cancelled."""
        made = ReplicaWatch(
            name=self.events.replica,
            at=at,
            identities=self.identities,
            events=self.events,
            digest=lambda: engine.policy.digest,
            rules=rules,
            clock=engine.clock,
            lag=ReplicaLag(patience),
        )
        self._replicas.append(made)
        return made


def open_pods(
    engine: ProxyEngine, own: ServedSandbox, service_account: Path, environ: Mapping[str, str]
) -> ClusterPods:
    """Make the sandboxes of the cluster that this process is a pod of. Raises `UsageError` elsewhere."""
    api = cluster_of_pod(environ, service_account)
    identities = IdentityMap(read_gateways())
    gateway = Workload(api.namespace, replica=environ.get(REPLICA_VARIABLE, ""))
    sandboxes = PodSandboxes(engine, identities, own, gateway)

    def take(found: tuple[WatchedObject, ...]) -> None:
        for pod in found:
            event = WatchEvent(EventType.MODIFIED, WatchKind.PODS, pod)
            sandboxes.cut(identities.apply(event, is_watched=False))

    sandboxes.asker = PodLookup(api, take, engine.clock.monotonic)
    events = open_event_writer(api, gateway.replica, engine.clock.now)
    tickets = PodTickets(engine, identities)
    sandboxes.on_refused = tickets.on_refused = RefusalEvents(events).tell
    identities.on_tickets_lost = tickets.cut_pod
    return ClusterPods(api, identities, sandboxes, events, tickets)
