"""What a proxy is started with can be named without loading the proxy."""

from __future__ import annotations

import subprocess
import sys


def test_naming_a_start_loads_neither_mitmproxy_nor_the_sources_of_secrets() -> None:
    code = "import egress.cli.serve, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "egress.proxy.process.start_values" in loaded
    assert not loaded & {"mitmproxy", "egress.secrets", "OpenSSL", "cryptography"}
