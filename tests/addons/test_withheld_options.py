"""mitmproxy runs without options, and never writes the keys of a connection."""

from __future__ import annotations

import pytest
from mitmproxy.connection import Client
from mitmproxy.net import tls
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer

from egress.addons.withheld_options import NO_OPTIONS, check_key_log
from egress.errors import UsageError

DANGEROUS = (
    "allow_hosts",
    "ignore_hosts",
    "rawtcp",
    "ssl_insecure",
    "tcp_hosts",
    "udp_hosts",
    "upstream_cert",
)


@pytest.mark.parametrize("name", [*DANGEROUS, "an_option_of_a_later_release"])
def test_no_option_can_be_read(name: str) -> None:
    with pytest.raises(RuntimeError, match=name):
        getattr(NO_OPTIONS, name)


@pytest.mark.parametrize("name", DANGEROUS)
def test_an_option_cannot_be_taken_for_one_that_is_off(name: str) -> None:
    """A default, or `hasattr`, must not hide that something asked."""
    assert hasattr(Options(), name)
    with pytest.raises(RuntimeError):
        getattr(NO_OPTIONS, name, False)
    with pytest.raises(RuntimeError):
        hasattr(NO_OPTIONS, name)


def test_no_option_can_be_set() -> None:
    with pytest.raises(AttributeError):
        NO_OPTIONS.rawtcp = True
    with pytest.raises(AttributeError):
        NO_OPTIONS.proxy_debug = True


def test_layers_log_nothing_of_what_passes() -> None:
    client = Client(peername=("", 0), sockname=("", 0))
    layer = NextLayer(Context(client, NO_OPTIONS))
    assert layer.debug is None
    # The good twin: the option is what the layer looks at.
    loud = Options()
    loud.add_option("proxy_debug", bool, True, "")
    assert NextLayer(Context(client, loud)).debug is not None


def test_refuses_to_run_where_keys_would_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    check_key_log()
    monkeypatch.setattr(tls, "log_master_secret", lambda *_: None)
    with pytest.raises(UsageError, match="keys of TLS"):
        check_key_log()
