"""A proxy as a process that believes to be a pod: the service account and the API server are the test's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from egress.cluster.api_server import ClusterApi
from tests.proxy.serve_process import ServeProcess


class PodProxy(ServeProcess):
    """`egress serve` with the rules of a ConfigMap, or of a file.

    Start it in a thread: the API server answers in the loop of the test.
    """

    def __init__(self, folder: Path, api: ClusterApi, arguments: Sequence[str], rules: str = "") -> None:
        env = {
            "KUBERNETES_SERVICE_HOST": api.host,
            "KUBERNETES_SERVICE_PORT": str(api.port),
            "HOSTNAME": "egress-proxy-0",
        }
        assert isinstance(api.token_source, Path)
        account = api.token_source.parent
        words = [*arguments, "--service-account", str(account)]
        super().__init__(folder, rules, words, env=env, trusted=bool(rules))
        (account / "namespace").write_text(api.namespace)
