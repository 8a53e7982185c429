"""A proxy as a process that believes to be a pod: the service account and the API server are the test's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from egress.cluster.api_server import ClusterApi
from tests.proxy.serve_process import ServeProcess

_AS_POD: Final = """
import sys
from pathlib import Path
from egress.cluster import api_server
api_server.cluster_of_pod.__defaults__ = (Path(sys.argv[1]),)
from egress.cli.main import main
sys.exit(main(sys.argv[sys.argv.index("serve"):]))
"""


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
        super().__init__(folder, rules, arguments, env=env, trusted=bool(rules))
        (account / "namespace").write_text(api.namespace)
        # A process of its own, because nothing but the program knows where its service account is.
        self.under = [sys.executable, "-c", _AS_POD, str(account)]
