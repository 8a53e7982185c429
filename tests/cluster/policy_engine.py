"""A stand-in for the policy engine of a cluster's network, whose faults are what is to be tried.

    python -m tests.cluster.policy_engine KUBECONFIG MILLISECONDS|at-once

It runs in the network namespace of the node, follows the API, and lets nftables enforce what policies say.
With a number, an address is open until so many milliseconds after the engine saw it, as with many engines.
With `at-once`, an address is shut until the engine knows its pod, as where the network waits for it.
Rules stay in the kernel when the engine dies.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from scripts.cluster.addresses import POD_RANGE
from tests.cluster.api_client import ApiClient
from tests.cluster.policy_ruleset import TABLE, Pod, Wishes, render

COLLECTIONS: Final = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}
AT_ONCE: Final = "at-once"
FLUSH: Final = f"table {TABLE}\ndelete table {TABLE}\n"


class PolicyEngine:
    """What the cluster holds, and the rules that follow from it."""

    def __init__(self, delay: float | None) -> None:
        self._delay = delay
        self._objects: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in COLLECTIONS}
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()

    def follow(self, api: ApiClient, name: str) -> None:
        """Take the events of a collection, for ever; the API server ends a watch now and then."""
        while True:
            held: set[str] = set()
            for event in api.watch(COLLECTIONS[name]):
                if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                    held.add(event["object"]["metadata"]["uid"])
                    self._take(name, event)
            with self._changed:
                gone = self._objects[name].keys() - held
                for uid in gone:
                    del self._objects[name][uid]

    def _take(self, name: str, event: dict[str, Any]) -> None:
        value = event["object"]
        with self._changed:
            if event["type"] == "DELETED":
                self._objects[name].pop(value["metadata"]["uid"], None)
            else:
                self._objects[name][value["metadata"]["uid"]] = value
            self._changed.notify()

    def enforce(self) -> None:
        """Write rules whenever they would be others, for ever."""
        written = ""
        while True:
            with self._changed:
                wishes, next_pod = self._wishes()
                if (rules := render(wishes)) == written:
                    self._changed.wait(next_pod)
                    continue
            subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
            written = rules

    def _wishes(self) -> tuple[Wishes, float | None]:
        """All that is to be enforced now, and the seconds until the next pod is old enough."""
        now, waiting, pods = time.monotonic(), [], []
        for uid, value in self._objects["pods"].items():
            status, meta = value["status"], value["metadata"]
            address = status.get("podIP")
            is_over = status.get("phase") in {"Succeeded", "Failed"}
            if not address or is_over or value["spec"].get("hostNetwork"):
                continue
            age = now - self._seen.setdefault(f"{uid} {address}", now)
            if age < (self._delay or 0.0):
                waiting.append((self._delay or 0.0) - age)
            else:
                pods.append(Pod(meta["namespace"], meta.get("labels") or {}, address))
        namespaces = self._objects["namespaces"].values()
        wishes = Wishes(
            sorted(pods, key=lambda pod: pod.address),
            {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces},
            list(self._objects["policies"].values()),
            POD_RANGE,
            self._delay is None,
        )
        return wishes, min(waiting, default=None)


def main(kubeconfig: str, delay: str) -> None:
    engine = PolicyEngine(None if delay == AT_ONCE else int(delay) / 1000)
    for name in COLLECTIONS:
        client = ApiClient.of(Path(kubeconfig))
        threading.Thread(target=engine.follow, args=(client, name), daemon=True).start()
    engine.enforce()


if __name__ == "__main__":
    main(*sys.argv[1:])
