"""A controller of agent-sandbox that runs: the real one where somebody has built it, or a stand-in."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from tests.cluster.agent_sandbox.controller import AGENTS, EXTENSIONS, AgentSandbox, define
from tests.cluster.api_client import ApiError
from tests.cluster.running_cluster import Json, RunningCluster, is_ready
from tests.conftest import AGENT_SANDBOX

DEFINITIONS: Final = Path(__file__).with_name("definitions.yaml")
POLL_SECONDS: Final = 0.2
_FLAGS: Final = (
    *("-extensions", "-enable-webhook=false", "-leader-elect=false"),
    *("-metrics-bind-address=127.0.0.1:0", "-health-probe-bind-address=127.0.0.1:0"),
)


class StandInController:
    """Keeps pools full and gives their members to claims, one at a time, in the usual order of steps."""

    def __init__(self, objects: AgentSandbox) -> None:
        self._objects = objects
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            try:
                self._turn()
            except ApiError as error:
                # Somebody was quicker, or the namespace goes: the next turn sees the objects as they are.
                if error.status not in {403, 404, 409}:
                    self._failure = error
                    return

    def _turn(self) -> None:
        templates = {each["metadata"]["name"]: each for each in self._list(EXTENSIONS, "sandboxtemplates")}
        policies = {
            each["metadata"]["name"] for each in self._list("networking.k8s.io/v1", "networkpolicies")
        }
        for name, template in templates.items():
            if f"{name}-network-policy" not in policies:
                self._objects.policy(template)
        sandboxes = self._list(AGENTS, "sandboxes")
        for pool in self._list(EXTENSIONS, "sandboxwarmpools"):
            name, members = pool["spec"]["sandboxTemplateRef"]["name"], _held_by(pool, sandboxes)
            if name in templates and len(members) < pool["spec"]["replicas"]:
                self._objects.member(pool, templates[name])
            ready = [each for each in members if self._is_ready(each)]
            self._objects.count(pool, len(ready))
            for claim in self._list(EXTENSIONS, "sandboxclaims"):
                is_waiting = "sandbox" not in claim.get("status", {})
                if is_waiting and claim["spec"]["warmPoolRef"]["name"] == pool["metadata"]["name"]:
                    if ready:
                        self._objects.adopt(claim, ready[0])
                    return

    def _is_ready(self, member: Json) -> bool:
        return is_ready(self._objects.cluster.pod(self._objects.namespace, member["metadata"]["name"]))

    def _list(self, version: str, plural: str) -> list[Json]:
        path = f"/apis/{version}/namespaces/{self._objects.namespace}/{plural}"
        found: list[Json] = self._objects.cluster.api.get(path)["items"]
        return [
            {"apiVersion": version, **each} for each in found if "deletionTimestamp" not in each["metadata"]
        ]


def _held_by(holder: Json, sandboxes: list[Json]) -> list[Json]:
    uid = holder["metadata"]["uid"]
    return [
        each for each in sandboxes if uid in {it["uid"] for it in each["metadata"].get("ownerReferences", ())}
    ]


@contextmanager
def running_controller(cluster: RunningCluster, namespace: str) -> Iterator[None]:
    """Let the objects of agent-sandbox come to life in a namespace.

    By the real one with EGRESS_TEST_AGENT_SANDBOX: the folder of its sources, with the program in `bin`.
    """
    if AGENT_SANDBOX:
        with _real(cluster, Path(AGENT_SANDBOX)):
            yield
        return
    define(cluster, str(DEFINITIONS))
    controller = StandInController(AgentSandbox(cluster, namespace))
    controller.start()
    try:
        yield
    finally:
        controller.stop()


@contextmanager
def _real(cluster: RunningCluster, sources: Path) -> Iterator[None]:
    """Its own kinds of objects, in the version that needs no webhook, and its program beside the node."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=real_definitions(sources))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    program = str(sources / "bin/agent-sandbox-controller")
    environment = {"KUBECONFIG": str(cluster.folders.kubeconfig)}
    with (cluster.folders.logs / "agent-sandbox").open("ab") as log:
        process = cluster.in_node(program, *_FLAGS, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
            assert process.poll() is None, f"the controller has ended: {cluster.folders.logs}/agent-sandbox"
        finally:
            process.terminate()
            process.wait(30)


def real_definitions(sources: Path) -> str:
    """The definitions of the real kinds, in one version."""
    yaml, found = YAML(typ="safe", pure=True), []
    for file in sorted((sources / "helm/crds").glob("*.yaml")):
        for each in yaml.load_all(file.read_text("utf-8")):
            each["spec"]["versions"] = [it for it in each["spec"]["versions"] if it["storage"]]
            each["spec"].pop("conversion", None)
            found.append(each)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
