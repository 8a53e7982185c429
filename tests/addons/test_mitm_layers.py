"""mitmproxy's TLS layers, without its other layers."""

from __future__ import annotations

import subprocess
import sys

BEFORE = "import sys\nfrom egress.addons.mitm_layers import ClientTLSLayer\n"


def ran(code: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_loads_none_of_the_other_protocols() -> None:
    shown = "print(*(name for name in sys.modules if name.startswith('mitmproxy.proxy.layers.')))"
    assert sorted(ran(BEFORE + shown)) == [f"mitmproxy.proxy.layers.{name}" for name in ("tcp", "tls", "udp")]


def test_whoever_wants_the_whole_package_gets_it() -> None:
    code = f"""{BEFORE}
import mitmproxy.proxy.layers as layers
from mitmproxy.proxy.layers import quic, HttpLayer
print(layers.ClientTLSLayer is ClientTLSLayer, layers.http.HttpLayer is HttpLayer, hasattr(layers, "nothing"))
"""
    assert ran(code) == ["True", "True", "False"]


def test_a_package_that_is_loaded_already_stays_as_it_is() -> None:
    shown = "print(sys.modules['mitmproxy.proxy.layers'] is before, before.HttpLayer.__name__)"
    assert ran(f"import mitmproxy.proxy.layers as before\n{BEFORE}{shown}") == ["True", "HttpLayer"]
