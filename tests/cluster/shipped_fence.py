"""The manifest as it is shipped, applied: the proxy, its policies, and workloads made from its example.

Only what has to differ here differs: the proxy trusts the authority of the stand-in for the internet, and its
rules allow two names more, both of which lead to the API server.
"""

from __future__ import annotations

import base64
import copy
import json
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML

from egress.runtime.docker.images import recipes
from scripts.cluster.addresses import API_SERVICE, DNS_SERVICE, NODE_ADDRESS
from tests.cluster.running_cluster import RunningCluster, is_ready, wait

type Json = dict[str, Any]

PYTHON: Final = "/opt/egress/bin/python"
PROXY: Final = "10.96.0.92"
CANARY: Final = "tcp:1.1.1.1:443"
API_SERVER: Final = f"tcp:{API_SERVICE}:443"
KUBELET: Final = f"tcp:{NODE_ADDRESS}:10250"
NAME_SERVER: Final = (f"udp:{DNS_SERVICE}:53", f"tcp:{DNS_SERVICE}:53")
METADATA: Final = ("tcp:169.254.169.254:80", "tcp:168.63.129.16:80", "tcp:100.100.100.200:80")
BESIDE_THE_PROXY: Final = (CANARY, API_SERVER, f"tcp:{NODE_ADDRESS}:6443", KUBELET, *NAME_SERVER, *METADATA)
"""What answers in this cluster wherever there is no fence."""
NAMES_OF_THE_API_SERVER: Final = ("kubernetes.default.svc.cluster.local", "node.example.com")
WAYS_TO_THE_PROXY: Final = tuple(f"tcp:{PROXY}:{port}" for port in (3128, 443, 53))
"""Port 80 is served only by rules that name it."""

# It dials everything at once and prints what answered. By UDP it asks a name server for any name.
PROBE: Final = r"""
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x03com\x00\x00\x01\x00\x01"

def answers(word):
    kind, host, port = word.split(":")
    with socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        try:
            sock.connect((host, int(port)))
            if kind == "udp":
                sock.send(QUESTION)
                sock.recv(512)
        except OSError:
            return False
    return True

words = sys.argv[1:]
with ThreadPoolExecutor(32) as pool:
    print(json.dumps([word for word, is_so in zip(words, pool.map(answers, words)) if is_so]))
"""

# A program that wants out: as its first act it dials around the proxy, for as long as policies may take.
# The gate dials another address.
DASHED_TO: Final = "8.8.8.8"
DASH_OUT: Final = """
import socket, time
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        socket.create_connection(("8.8.8.8", 443), 0.2).close()
        break
    except OSError:
        time.sleep(0.01)
time.sleep(3600)
"""


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of a namespace."""

    cluster: RunningCluster
    namespace: str = "agents"
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """The secret that no workload holds."""

    def set_up(self, upstream_authority: str) -> None:
        """Apply the manifest in the order of its guide, and wait until the proxy serves."""
        parts = manifest()
        self.cluster.apply(*(each for each in parts if each["kind"] == "Namespace"))
        data = {"token": base64.b64encode(self.token.encode()).decode("ascii")}
        token = _object("Secret", "egress-token", self.namespace) | {"data": data}
        upstreams = _object("ConfigMap", "upstreams", self.namespace) | {
            "data": {"ca.pem": upstream_authority}
        }
        # Without the admission policies: trials of the network make pods and policies that they refuse.
        others = [
            each
            for each in parts
            if each["kind"] not in {"Namespace", "Pod"} and not each["kind"].startswith("Validating")
        ]
        self.cluster.apply(token, upstreams, *map(_differing, others))
        self.until_proxy_serves()

    def until_proxy_serves(self) -> None:
        def serves() -> bool:
            pods = self.proxies()
            return bool(pods) and all(is_ready(pod) for pod in pods)

        wait(serves, lambda: self.cluster.kubectl("-n", self.namespace, "describe", "pods"), 120)

    def scale(self, replicas: int) -> None:
        """Have so many pods of the proxy, and wait until that is so."""
        self.cluster.kubectl("-n", self.namespace, "scale", "--all", "statefulset", f"--replicas={replicas}")
        if replicas:
            self.until_proxy_serves()
        else:
            wait(lambda: not self.proxies(), lambda: "the proxy stays")

    def proxies(self) -> list[Json]:
        return self.cluster.pods(self.namespace, "app=egress-proxy")

    def remove(self) -> None:
        self.cluster.delete_namespace(self.namespace)

    @contextmanager
    def kept_as_it_is(self) -> Iterator[None]:
        """Remove the pods and policies that are added meanwhile."""
        policies = f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/networkpolicies"
        before = {each["metadata"]["name"] for each in self.cluster.api.get(policies)["items"]}
        try:
            yield
        finally:
            after = {each["metadata"]["name"] for each in self.cluster.api.get(policies)["items"]}
            for name in after - before:
                self.cluster.api.delete(f"{policies}/{name}")
            pods = self.cluster.pods(self.namespace, "app!=egress-proxy")
            self.cluster.delete_pods(self.namespace, *(pod["metadata"]["name"] for pod in pods))

    # Workloads ------------------------------------------------------------------------------------

    def start(self, name: str, script: str = "", *, has_gate: bool = True, gate_seconds: int = 0) -> Json:
        """Start a workload like the example of the manifest."""
        value = workload(name, script, has_gate=has_gate, gate_seconds=gate_seconds)
        return self.cluster.api.create(f"/api/v1/namespaces/{self.namespace}/pods", value)

    def answering(self, pod: str, *words: str, namespace: str = "", container: str = "") -> set[str]:
        """Dial addresses from inside a pod, and return those that answered."""
        namespace, command = namespace or self.namespace, (PYTHON, "-I", "-c", PROBE, *words)
        done = self.cluster.execute(namespace, pod, *command, container=container)
        assert done.returncode == 0, done.stderr
        return set(json.loads(done.stdout))

    def start_unfenced(self, namespace: str, name: str, script: str = "") -> None:
        """Start the same program in a namespace without a fence, and without the gate."""
        value = workload(name, script, has_gate=False)
        value["spec"]["volumes"] = [each for each in value["spec"]["volumes"] if each["name"] != "trust"]
        for container in value["spec"]["containers"]:
            container["volumeMounts"] = [
                each for each in container["volumeMounts"] if each["name"] != "trust"
            ]
        self.cluster.api.create(f"/api/v1/namespaces/{namespace}/pods", value | {"metadata": {"name": name}})

    def request(self, pod: str, url: str, *, is_direct: bool = False) -> subprocess.CompletedProcess[str]:
        """Ask for a URL by curl from inside a pod, with its proxy variables or as if there were none."""
        words = ["curl", "-sS", "-m", "10", "-o", "/tmp/body", "-w", "%{http_code}", url]
        return self.cluster.execute(self.namespace, pod, *words, *(["--noproxy", "*"] if is_direct else []))

    def refusal(self, pod: str) -> str:
        """The code with which the request before was refused."""
        done = self.cluster.execute(self.namespace, pod, "cat", "/tmp/body")
        return str(json.loads(done.stdout)["error"]["code"])


def workload(name: str, script: str = "", *, has_gate: bool = True, gate_seconds: int = 0) -> Json:
    """Make a pod like the example of the manifest; with a script, it runs that in the proxy's image."""
    (example,) = [each for each in manifest() if each["kind"] == "Pod"]
    value: Json = copy.deepcopy(example)
    value["metadata"]["name"] = name
    spec = value["spec"]
    spec["terminationGracePeriodSeconds"] = 0
    if not has_gate:
        del spec["initContainers"]
    elif gate_seconds:
        spec["initContainers"][0]["args"].append(f"--timeout={gate_seconds}")
        spec["restartPolicy"] = "Never"
    (container,) = spec["containers"]
    # Twelve of them have to find room on one node.
    container["resources"] = {"requests": {"cpu": "10m", "memory": "32Mi"}}
    if script:
        container |= {"image": "egress-proxy", "command": [PYTHON, "-I", "-c", script]}
    return value


def manifest() -> list[Json]:
    text = (recipes.folder() / "kubernetes.yaml").read_text("utf-8")
    return list(YAML(typ="safe", pure=True).load_all(text))


def _differing(part: Json) -> Json:
    """Let the proxy trust the stand-in for the internet, and allow it what its own guard has to refuse."""
    if part["kind"] == "ConfigMap" and part["metadata"]["name"] == "egress-rules":
        rules = part["data"]["hosts.yaml"]
        more = "".join(f"  {name}: {{ allow: all }}\n" for name in NAMES_OF_THE_API_SERVER)
        return part | {"data": {"hosts.yaml": f"{rules.rstrip()}\n{more}"}}
    found: Json = copy.deepcopy(part)
    if part["kind"] == "NetworkPolicy" and part["metadata"]["name"] in {"proxy", "authority"}:
        # Policies here see the place where a connection to the API server ends, as in most clusters.
        place = {"to": [{"ipBlock": {"cidr": f"{NODE_ADDRESS}/32"}}], "ports": [{"port": 6443}]}
        found["spec"]["egress"].append(place)
        return found
    if part["kind"] != "StatefulSet":
        return part
    spec = found["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["args"].append("--upstream-ca=/etc/upstreams/ca.pem")
    container["volumeMounts"].append({"name": "upstreams", "mountPath": "/etc/upstreams"})
    spec["volumes"].append({"name": "upstreams", "configMap": {"name": "upstreams"}})
    return found


def _object(kind: str, name: str, namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def names(prefix: str, count: int) -> Sequence[str]:
    return [f"{prefix}-{number}" for number in range(count)]
