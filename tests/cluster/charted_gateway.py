"""The chart as it is shipped, installed by helm: a gateway, and sandboxes made from its example."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.cluster.running_cluster import RunningCluster, wait
from tests.cluster.shipped_fence import PYTHON, Fence

type Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/egress"
HELM: Final = ROOT / ".venv/bin/helm"
ADDRESS: Final = "10.96.0.93"
"""Not that of the manifest, which may be there at the same time."""
RULES: Final = """\
version: 1
secrets:
  token: { from: "file:/run/secrets/egress/token", hosts: [api.github.com] }
hosts:
  api.github.com:
    allow: [{ id: read, methods: [GET] }]
    inject: [{ bearer: token }]
"""

# A sandbox that asks again and again, each time by a connection of its own, and says what it was answered.
ASK: Final = """
import http.client, json, ssl, sys, time

context = ssl.create_default_context(cafile="/etc/egress-trust/ca.pem")
while True:
    began = time.time()
    try:
        connection = http.client.HTTPSConnection("{address}", 3128, timeout=5, context=context)
        connection.set_tunnel("api.github.com")
        connection.request("GET", "/pod/{name}")
        response = connection.getresponse()
        body = response.read()
        code = json.loads(body)["error"]["code"] if response.status != 200 else ""
        found = [response.status, code]
        connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        found = [0, str(error)[:200]]
    print(json.dumps([began, *found]), flush=True)
    time.sleep({pause})
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sandbox was answered, and when it had asked."""

    asked: float
    status: int
    code: str


@dataclass(frozen=True, slots=True)
class ChartedGateway(Fence):
    """A release of the chart."""

    namespace: str = "charted"

    def set_up(self, upstream_authority: str) -> None:
        """Install the chart, and wait until both replicas are ready."""
        level = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.cluster.make_namespace(self.namespace, level)
        # Beside the token: the authority of the stand-in for the internet.
        files = {"token": self.token, "upstreams.pem": upstream_authority}
        secret = {"metadata": {"name": "egress-token"}, "stringData": files}
        self.cluster.api.create(f"/api/v1/namespaces/{self.namespace}/secrets", secret)
        values = {
            "service": {"address": ADDRESS},
            "rules": {"text": RULES},
            "gateway": {"drainSeconds": 2, "arguments": ["--upstream-ca=/run/secrets/egress/upstreams.pem"]},
        }
        self.helm(
            "install", "egress", str(CHART), "--values=-", "--wait", "--timeout=150s", text=json.dumps(values)
        )

    def helm(self, *words: str, text: str | None = None) -> str:
        """Run helm; what it says in an error is the error."""
        where = (f"--kubeconfig={self.cluster.folders.kubeconfig}", f"--namespace={self.namespace}")
        done = subprocess.run([HELM, *where, *words], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def remove(self) -> None:
        for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
            selector = "app.kubernetes.io/instance=egress"
            self.cluster.kubectl("delete", kind, "-l", selector, "--ignore-not-found")
        self.cluster.delete_namespace(self.namespace)

    def lines(self) -> list[Json]:
        """Every line of the logs of all replicas."""
        read = (
            "import pathlib; print(*(p.read_text() for p in"
            " sorted(pathlib.Path('/var/lib/egress/state/audit').rglob('*.jsonl'))), sep='')"
        )
        found = []
        for proxy in self.proxies():
            done = self.cluster.execute(self.namespace, proxy["metadata"]["name"], PYTHON, "-I", "-c", read)
            assert done.returncode == 0, done.stderr
            found += [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        return found

    def answers(self, pod: str) -> list[Answer]:
        """What a sandbox that asks was answered so far."""
        text = self.cluster.api.text(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log?container=workload")
        return [Answer(*json.loads(line)) for line in text.splitlines() if line.endswith("]")]

    def until_answered(self, pod: str, status: int, code: str = "") -> Answer:
        """Wait until a sandbox is answered so, and return the first such answer."""
        found: list[Answer] = []

        def is_there() -> bool:
            found[:] = [each for each in self.answers(pod) if (each.status, each.code) == (status, code)]
            return bool(found)

        wait(is_there, lambda: f"answers of {pod}: {self.answers(pod)[-3:]}")
        return found[0]


def asking(name: str, pause: float = 0.1) -> Json:
    """Make a pod like the sandboxes of the chart's example for agent-sandbox, whose program asks."""
    text = (CHART / "examples/agent-sandbox.yaml").read_text("utf-8").replace("10.96.0.92", ADDRESS)
    (template, *_) = YAML(typ="safe", pure=True).load_all(text)
    blueprint: Json = copy.deepcopy(template["spec"]["podTemplate"])
    spec = blueprint["spec"]
    spec["terminationGracePeriodSeconds"] = 0
    (container,) = spec["containers"]
    script = ASK.format(address=ADDRESS, name=name, pause=pause)
    container |= {"image": "egress-proxy", "command": [PYTHON, "-I", "-c", script]}
    container["resources"] = {"requests": {"cpu": "10m", "memory": "32Mi"}}
    spec["initContainers"][0]["resources"]["requests"] = {"cpu": "10m", "memory": "32Mi"}
    return {"metadata": blueprint["metadata"] | {"name": name}, "spec": spec}


@contextmanager
def charted(cluster: RunningCluster, upstream_authority: str) -> Iterator[ChartedGateway]:
    """Install the chart for a while; a policy engine has to run."""
    found = ChartedGateway(cluster)
    found.remove()
    try:
        found.set_up(upstream_authority)
        yield found
    finally:
        found.remove()
