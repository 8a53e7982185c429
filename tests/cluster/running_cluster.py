"""The cluster that `make cluster` has started, as trials use it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from scripts.cluster import binaries
from scripts.cluster.addresses import OUTSIDE
from scripts.cluster.folders import NodeFolders
from scripts.cluster.running import RunningNode
from tests.cluster.api_client import ApiClient, ApiError

type Json = dict[str, Any]

WAIT_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A one-node cluster."""

    folders: NodeFolders
    process: int
    """The first process of its namespaces, as this machine numbers it."""
    api: ApiClient

    @classmethod
    def of(cls, node: RunningNode) -> Self:
        (first,) = node.children()
        return cls(node.folders, first, ApiClient.of(node.folders.kubeconfig))

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run the kubectl of the cluster; what it says in an error is the error."""
        command = [str(binaries.folder() / "kubectl"), f"--kubeconfig={self.folders.kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def apply(self, *objects: Json) -> None:
        self.kubectl(
            "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def execute(
        self, namespace: str, pod: str, *command: str, container: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a pod, whatever its status."""
        kubectl = [str(binaries.folder() / "kubectl"), f"--kubeconfig={self.folders.kubeconfig}"]
        return subprocess.run(
            [
                *kubectl,
                "-n",
                namespace,
                "exec",
                pod,
                *(["-c", container] if container else []),
                "--",
                *command,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def in_node(self, *command: str, **options: object) -> subprocess.Popen[str]:
        """Start a program in the network namespace of the node, and in no other namespace of it."""
        return self._start(Path(f"/proc/{self.process}/ns/net"), command, options)

    def outside(self, *command: str, **options: object) -> subprocess.Popen[str]:
        """Start a program in the stand-in for the internet."""
        root = Path(f"/proc/{self.process}/root")
        return self._start(root / "run/netns" / OUTSIDE, command, options)

    @staticmethod
    def _start(namespace: Path, command: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[str]:
        return subprocess.Popen(["nsenter", f"--net={namespace}", *command], text=True, **options)

    # Pods -----------------------------------------------------------------------------------------

    def pods(self, namespace: str, labels: str = "") -> list[Json]:
        query = f"?labelSelector={labels}" if labels else ""
        found: list[Json] = self.api.get(f"/api/v1/namespaces/{namespace}/pods{query}")["items"]
        return found

    def pod(self, namespace: str, name: str) -> Json:
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def until_ready(self, namespace: str, *names: str) -> list[Json]:
        """Wait until pods are ready, and return them."""
        return [self._until(namespace, name, is_ready) for name in names]

    def until_ended(self, namespace: str, *names: str) -> list[Json]:
        """Wait until the containers of pods have ended, and return the pods."""
        return [self._until(namespace, name, has_ended) for name in names]

    def until_gate_failed(self, namespace: str, name: str) -> str:
        """Wait until the gate of a pod has given up, and return the message in the pod's status."""
        pod = self._until(namespace, name, lambda pod: bool(gate_message(pod)))
        return gate_message(pod)

    def _until(self, namespace: str, name: str, is_so: Callable[[Json], bool]) -> Json:
        found: Json = {}

        def look() -> bool:
            nonlocal found
            found = self.pod(namespace, name)
            return is_so(found)

        wait(look, lambda: f"pod {name}: {json.dumps(found.get('status'), indent=1)}")
        return found

    def delete_pods(self, namespace: str, *names: str) -> None:
        """Delete pods at once, and wait until their addresses are free."""
        for name in names:
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", 0)
        for name in names:
            wait(lambda name=name: not self._has_pod(namespace, name), lambda name=name: f"{name} stays")  # type: ignore[misc]

    def _has_pod(self, namespace: str, name: str) -> bool:
        try:
            self.pod(namespace, name)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    # Namespaces -----------------------------------------------------------------------------------

    def make_namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        value = {"metadata": {"name": name, "labels": labels or {}}}
        self.api.create("/api/v1/namespaces", value)
        # Pods are refused until a controller has made this account.
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait(lambda: self._is_there(account), lambda: f"no service account in {name}")

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with its pods where there is one, and wait until their addresses are free."""
        if not self._is_there(f"/api/v1/namespaces/{name}"):
            return
        self.api.delete(f"/api/v1/namespaces/{name}/pods", 0)
        self.api.delete(f"/api/v1/namespaces/{name}")
        wait(lambda: not self._is_there(f"/api/v1/namespaces/{name}"), lambda: f"{name} stays")

    def _is_there(self, path: str) -> bool:
        try:
            self.api.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def has_ended(pod: Json) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def gate_message(pod: Json) -> str:
    """What the gate said when it gave up; empty as long as it did not."""
    for container in pod["status"].get("initContainerStatuses") or ():
        for state in (container["state"], container.get("lastState") or {}):
            if (ended := state.get("terminated")) and ended["exitCode"]:
                return str(ended.get("message", ""))
    return ""


def wait(is_so: Callable[[], bool], describe: Callable[[], str], seconds: float = WAIT_SECONDS) -> None:
    """Wait until something is so; fail with a description of what is so instead."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds:g} s: {describe()}"
        time.sleep(POLL_SECONDS)
