"""The chart, installed by Helm in a namespace of its own on the cluster of the trials."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chart.rendered_chart import CHART, EXAMPLES, HELM, Json, parsed
from tests.cluster.api_client import ApiError
from tests.cluster.running_cluster import RunningCluster, is_ready, wait

ADDRESS: Final = "10.96.40.1"
IMAGE: Final = "egress-proxy"
EXAMPLE: Final[dict[str, list[Json]]] = {file.stem: parsed(file.read_text("utf-8")) for file in EXAMPLES}


class HelmFailedError(AssertionError):
    """Helm gave up."""


@dataclass(frozen=True, slots=True)
class InstalledChart:
    """A release, and the objects in its namespace."""

    cluster: RunningCluster
    folder: Path
    namespace: str

    @classmethod
    def prepared(cls, cluster: RunningCluster, folder: Path) -> InstalledChart:
        """Make the namespace as the guide does, and a copy of the chart."""
        found = cls(cluster, folder / "chart", f"chart-{secrets.token_hex(3)}")
        shutil.copytree(CHART, found.folder)
        about = found.folder / "Chart.yaml"
        # A cluster that is built from modules says no version that Helm could compare.
        lines = about.read_text("utf-8").splitlines(keepends=True)
        about.write_text("".join(line for line in lines if not line.startswith("kubeVersion")), "utf-8")
        cluster.make_namespace(found.namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
        return found

    def helm(self, *words: str, values: Json | None = None, seconds: int = 180) -> str:
        given = {"service": {"address": ADDRESS}, "image": {"name": IMAGE}, **(values or {})}
        command = [
            str(HELM),
            f"--kubeconfig={self.cluster.folders.kubeconfig}",
            f"--namespace={self.namespace}",
            *words,
            *(["--values", "-"] if words[0] in {"install", "upgrade"} else []),
        ]
        done = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode:
            raise HelmFailedError(done.stdout + done.stderr)
        return done.stdout

    def install(self, values: Json | None = None) -> None:
        self.helm("install", "egress", str(self.folder), "--timeout=90s", values=values)

    def upgrade(self, values: Json | None = None) -> None:
        self.helm("upgrade", "egress", str(self.folder), "--timeout=90s", values=values)

    def until_ready(self, replicas: int = 2) -> None:
        """Wait until so many replicas serve."""

        def serves() -> bool:
            pods = self.cluster.pods(self.namespace, "app=egress-proxy")
            return len([pod for pod in pods if is_ready(pod)]) == replicas

        wait(serves, lambda: self.cluster.kubectl("-n", self.namespace, "describe", "pods"), 120)

    def remove(self) -> None:
        try:
            self.helm("uninstall", "egress")
        finally:
            self.cluster.delete_namespace(self.namespace)

    # Objects --------------------------------------------------------------------------------------

    def here(self, value: Json) -> Json:
        """The object in this namespace, with this gateway."""
        found: Json = json.loads(
            json.dumps(value)
            .replace("10.96.0.92", ADDRESS)
            .replace('"image": "egress-proxy"', f'"image": "{IMAGE}"')
            .replace('"namespace": "agents"', f'"namespace": "{self.namespace}"')
        )
        return found

    def workload(self) -> Json:
        return self.here(deepcopy(EXAMPLE["pod"][0]))

    def path(self, resource: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self.namespace}/{resource}"

    def try_to_create(self, value: Json, resource: str = "pods", group: str = "api/v1") -> str:
        """Ask the API server, which keeps nothing; return why it refuses, or nothing."""
        try:
            self.cluster.api.create(f"{self.path(resource, group)}?dryRun=All", value)
        except ApiError as error:
            return error.text
        return ""
