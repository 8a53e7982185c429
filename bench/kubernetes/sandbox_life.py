"""The life of one sandbox as the API tells it: into the pool, to a claim, and to its end; sixteen events.

The order is that of the controllers of agent-sandbox and of the kubelet: a claim is created and marked, its
sandbox changes owner, then the status of the claim names the sandbox, and the labels of the pod follow.
"""

from __future__ import annotations

import asyncio

from bench.kubernetes import cluster_objects as objects
from bench.kubernetes.busy_api_server import BusyApiServer
from egress.kubernetes.watch_events import EventType, WatchKind

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
ADDED, DELETED = EventType.ADDED, EventType.DELETED
_TIME = "2026-03-01T09:31:00Z"
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": _TIME}


class SandboxLife:
    """A sandbox with its pod, at an address, and its claim."""

    def __init__(self, server: BusyApiServer, number: int, address: str = "", profile: str = "") -> None:
        self._server = server
        self.address = address or objects.address(number)
        self.sandbox = objects.sandbox(number)
        self.pod = objects.pod(number, self.sandbox)
        self.claim = objects.claim(number, profile)
        self._name: str = self.sandbox["metadata"]["name"]

    @property
    def pod_name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def pod_uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    async def fill(self, *, at_once: bool = False) -> None:
        """Come into the pool: six events in two seconds."""
        put = self._server.put
        put(SANDBOXES, self.sandbox, ADDED)
        put(PODS, self.pod, ADDED)
        await asyncio.sleep(0 if at_once else 0.05)
        self.pod["spec"]["nodeName"] = "node-1"
        put(PODS, self.pod)
        await asyncio.sleep(0 if at_once else 0.9)
        objects.run(self.pod, self.address)
        put(PODS, self.pod)
        await asyncio.sleep(0 if at_once else 1.0)
        put(PODS, self.pod)
        self.sandbox["status"] = {"podIPs": [self.address], "conditions": [_READY]}
        put(SANDBOXES, self.sandbox)

    async def adopt(self, *, at_once: bool = False) -> None:
        """Go from the pool to the claim: four events. The claim is ready afterwards."""
        put, meta = self._server.put, self.claim["metadata"]
        put(CLAIMS, self.claim, ADDED)
        await asyncio.sleep(0 if at_once else 0.005)
        meta["annotations"]["agents.x-k8s.io/sandbox-name"] = self._name
        put(CLAIMS, self.claim)
        await asyncio.sleep(0 if at_once else 0.01)
        holder = objects.owned_by(objects.EXTENSIONS, "SandboxClaim", meta)
        self.sandbox["metadata"]["ownerReferences"] = [holder]
        put(SANDBOXES, self.sandbox)
        await asyncio.sleep(0 if at_once else 0.005)
        found = {"name": self._name, "podIPs": [self.address]}
        self.claim["status"] = {"sandbox": found, "conditions": [_READY]}
        put(CLAIMS, self.claim)

    def label(self) -> None:
        """Tell the pod of its claim, which another controller does some time later: one event."""
        self.pod["metadata"]["labels"]["agents.x-k8s.io/claim-uid"] = self.claim["metadata"]["uid"]
        self._server.put(PODS, self.pod)

    def release(self) -> None:
        """Delete the claim, and with it the sandbox; the pod begins to end: three events."""
        put = self._server.put
        put(CLAIMS, self.claim, DELETED)
        put(SANDBOXES, self.sandbox, DELETED)
        self.pod["metadata"]["deletionTimestamp"] = _TIME
        put(PODS, self.pod)

    def finish(self) -> None:
        """The containers of the pod have ended, and its address is free: one event."""
        self.pod["status"]["phase"] = "Succeeded"
        self._server.put(PODS, self.pod)

    def remove(self) -> None:
        """The pod is gone: one event."""
        self._server.put(PODS, self.pod, DELETED)
