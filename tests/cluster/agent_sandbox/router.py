"""The router through which clients of agent-sandbox reach sandboxes: the real one, or a stand-in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.cluster import images
from tests.cluster.running_cluster import Json, RunningCluster
from tests.cluster.shipped_fence import PYTHON
from tests.conftest import AGENT_SANDBOX

NAMESPACE: Final = "agent-sandbox-system"
_IMAGE: Final = "localhost/sandbox-router:1"
_STAND_IN: Final = """
import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Router(BaseHTTPRequestHandler):
    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address, port = self.headers["X-Sandbox-Pod-IP"], int(self.headers.get("X-Sandbox-Port", 8888))
        connection = http.client.HTTPConnection(address, port, timeout=60)
        fields = {key: value for key, value in self.headers.items() if key.lower() != "authorization"}
        connection.request(self.command, self.path, body, fields)
        response = connection.getresponse()
        content = response.read()
        self.send_response(response.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = forward

ThreadingHTTPServer(("", 8080), Router).serve_forever()
"""


@contextmanager
def running_router(cluster: RunningCluster) -> Iterator[None]:
    """Run a router where clients look for it; with EGRESS_TEST_AGENT_SANDBOX it is the one of its sources."""
    if AGENT_SANDBOX:
        program = Path(AGENT_SANDBOX) / "bin/sandbox-router"
        images.load_archive(cluster.folders, images.archive(_IMAGE, program))
    cluster.delete_namespace(NAMESPACE)
    cluster.make_namespace(NAMESPACE)
    labels = {"app": "sandbox-router"}
    service = {
        "metadata": {"name": "sandbox-router-svc"},
        "spec": {"selector": labels, "ports": [{"port": 8080}]},
    }
    pod = {"metadata": {"name": "sandbox-router", "labels": labels}, "spec": _spec()}
    try:
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/services", service)
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        cluster.until_ready(NAMESPACE, "sandbox-router")
        yield
    finally:
        cluster.delete_namespace(NAMESPACE)


def asked_for(cluster: RunningCluster, address: str, port: int, path: str) -> str:
    """Ask the router for a page at an address of the client's choice; return the status."""
    router = cluster.pod(NAMESPACE, "sandbox-router")["status"]["podIP"]
    fields = {"X-Sandbox-ID": "any", "X-Sandbox-Pod-IP": address, "X-Sandbox-Port": str(port)}
    words = [word for name, value in fields.items() for word in ("-H", f"{name}: {value}")]
    command = ["curl", "-s", "-m", "15", "-o", "/dev/null", "-w", "%{http_code}", *words]
    asking = cluster.in_node(*command, f"http://{router}:8080{path}", stdout=subprocess.PIPE)
    return asking.communicate(timeout=30)[0]


def _spec() -> Json:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    container: Json = {"name": "router", "imagePullPolicy": "IfNotPresent", "readinessProbe": probe}
    if AGENT_SANDBOX:
        container |= {"image": _IMAGE, "args": ["--http-bind-address=:8080"]}
    else:
        container |= {"image": "egress-proxy", "command": [PYTHON, "-I", "-c", _STAND_IN]}
    return {"containers": [container], "terminationGracePeriodSeconds": 0}
