"""The chart as it is shipped, installed by Helm: a gateway, and sandboxes made from its examples."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.chart.rendered_chart import CHART, EXAMPLES, HELM, Json, parsed
from tests.cluster.api_client import ApiError
from tests.cluster.running_cluster import wait
from tests.cluster.shipped_fence import PYTHON, Fence

EXAMPLE: Final[dict[str, list[Json]]] = {file.stem: parsed(file.read_text("utf-8")) for file in EXAMPLES}
EXAMPLE_ADDRESS: Final = "10.96.0.92"
LEVEL: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
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
        connection.set_tunnel("{host}")
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
READ_LOG: Final = """
import pathlib
folder = pathlib.Path("/var/lib/egress/state/audit")
print(*(file.read_text() for file in sorted(folder.rglob("*.jsonl"))), sep="")
"""


class HelmFailedError(AssertionError):
    """Helm gave up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a sandbox, and when it had asked."""

    asked: float
    status: int
    code: str


@dataclass(frozen=True, slots=True)
class InstalledChart(Fence):
    """A release of the chart in a namespace of its own."""

    namespace: str = "charted"
    address: str = "10.96.0.93"
    """Not that of the manifest, which may be there at the same time."""
    values: Json = field(default_factory=dict)
    """Further values."""

    def prepare(self, files: dict[str, str] | None = None) -> None:
        """Make the namespace and the Secret of the gateway, as the guide does."""
        self.cluster.make_namespace(self.namespace, LEVEL)
        secret = {"metadata": {"name": "egress-token"}, "stringData": {"token": self.token, **(files or {})}}
        self.cluster.api.create(self.path("secrets"), secret)

    def set_up(self, upstream_authority: str) -> None:
        """Install the chart beside the stand-in for the internet, and wait until all replicas are ready."""
        self.prepare({"upstreams.pem": upstream_authority})
        self.install("--wait")

    def install(self, *options: str, values: Json | None = None) -> None:
        self._helm_with(values, "install", "egress", str(CHART), "--timeout=150s", *options)

    def upgrade(self, *options: str, values: Json | None = None) -> None:
        self._helm_with(values, "upgrade", "egress", str(CHART), "--timeout=150s", *options)

    def _helm_with(self, values: Json | None, *words: str) -> None:
        given = {"service": {"address": self.address}, **self.values, **(values or {})}
        self.helm(*words, "--values=-", text=json.dumps(given))

    def helm(self, *words: str, text: str | None = None) -> str:
        """Run Helm; its own message is the error."""
        where = (f"--kubeconfig={self.cluster.folders.kubeconfig}", f"--namespace={self.namespace}")
        command = [str(HELM), *where, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            raise HelmFailedError(f"helm {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def remove(self) -> None:
        """Remove the release, in whatever state it is, and its namespace."""
        for kind in ("policy", "policybinding"):
            for prefix in ("validatingadmission", "mutatingadmission"):
                found = self.cluster.kubectl("get", prefix + kind, "-o", "name").split()
                of_this = [
                    each for each in found if each.partition("/")[2].startswith(f"egress-{self.namespace}-")
                ]
                if of_this:
                    self.cluster.kubectl("delete", *of_this)
        self.cluster.delete_namespace(self.namespace)

    # The log --------------------------------------------------------------------------------------

    def lines(self) -> list[Json]:
        """Every line of the logs of all replicas."""
        found = []
        for proxy in self.proxies():
            name = proxy["metadata"]["name"]
            done = self.cluster.execute(self.namespace, name, PYTHON, "-I", "-c", READ_LOG)
            assert done.returncode == 0, done.stderr
            found += [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        return found

    def exchanges(self, pod: str) -> list[Json]:
        """The requests of a pod that were allowed, as the logs have them."""
        return [line for line in self.lines() if line.get("pod") == pod and line.get("verdict") == "allow"]

    # Sandboxes that ask ---------------------------------------------------------------------------

    def asking(self, name: str, pause: float = 0.1, host: str = "api.github.com") -> Json:
        """Make a pod like the sandboxes of the example for agent-sandbox, whose program asks."""
        blueprint = self.here(EXAMPLE["agent-sandbox"][0])["spec"]["podTemplate"]
        spec = blueprint["spec"]
        spec["terminationGracePeriodSeconds"] = 0
        (container,) = spec["containers"]
        script = ASK.format(address=self.address, name=name, pause=pause, host=host)
        container |= {"image": "egress-proxy", "command": [PYTHON, "-I", "-c", script]}
        container["resources"] = {"requests": {"cpu": "10m", "memory": "32Mi"}}
        spec["initContainers"][0]["resources"]["requests"] = {"cpu": "10m", "memory": "32Mi"}
        return {"metadata": blueprint["metadata"] | {"name": name}, "spec": spec}

    def start_asking(self, name: str, host: str = "api.github.com", profile: str = "") -> None:
        """Start a plain sandbox that asks, and wait until its program runs."""
        pod = self.asking(name, host=host)
        pod["metadata"]["annotations"] = {"egress/profile": profile} if profile else {}
        self.cluster.api.create(self.path("pods"), pod)
        self.cluster.until_ready(self.namespace, name)

    def answers(self, pod: str) -> list[Answer]:
        """The answers to a sandbox that asks, so far."""
        text = self.cluster.api.text(f"{self.path('pods')}/{pod}/log?container=workload")
        return [Answer(*json.loads(line)) for line in text.splitlines() if line.endswith("]")]

    def until_answered(self, pod: str, status: int, code: str = "") -> Answer:
        """Wait until a sandbox is answered so, and return the first such answer."""
        found: list[Answer] = []

        def is_there() -> bool:
            found[:] = [each for each in self.answers(pod) if (each.status, each.code) == (status, code)]
            return bool(found)

        wait(is_there, lambda: f"answers of {pod}: {self.answers(pod)[-3:]}")
        return found[0]

    # Objects --------------------------------------------------------------------------------------

    def here(self, value: Json) -> Json:
        """The object of an example, in this namespace and with this gateway."""
        found: Json = json.loads(
            json.dumps(value)
            .replace(EXAMPLE_ADDRESS, self.address)
            .replace('"namespace": "agents"', f'"namespace": "{self.namespace}"')
        )
        return found

    def workload(self) -> Json:
        return self.here(copy.deepcopy(EXAMPLE["pod"][0]))

    def path(self, resource: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self.namespace}/{resource}"

    def try_to_create(self, value: Json, resource: str = "pods", group: str = "api/v1") -> str:
        """Ask the API server, which keeps nothing; return why it refuses, or nothing."""
        try:
            self.cluster.api.create(f"{self.path(resource, group)}?dryRun=All", value)
        except ApiError as error:
            return error.text
        return ""


def trusting_upstreams(rules: str = RULES, **gateway: object) -> Json:
    """Values for a gateway that trusts the stand-in for the internet, and ends without a long drain."""
    arguments = ["--upstream-ca=/run/secrets/egress/upstreams.pem"]
    return {"rules": {"text": rules}, "gateway": {"drainSeconds": 2, "arguments": arguments, **gateway}}


@contextmanager
def installed(chart: InstalledChart, upstream_authority: str) -> Iterator[InstalledChart]:
    """Install a chart for a while; a policy engine has to run."""
    chart.remove()
    try:
        chart.set_up(upstream_authority)
        yield chart
    finally:
        chart.remove()
