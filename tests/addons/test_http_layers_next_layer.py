"""Which layer comes next: TLS where the door says so, then HTTP, and nothing by the bytes that come."""

from __future__ import annotations

from typing import cast

import pytest
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.options import Options
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer, NextLayer, NextLayerHook
from mitmproxy.proxy.mode_specs import ProxyMode

from egress.addons.http_layers import HttpLayer, NextLayerChooser, RootLayer
from egress.addons.tls_layers import SandboxTlsLayer
from egress.relay.relay import ClientProtocol


def context() -> Context:
    client = Client(
        peername=("", 0), sockname=("", 0), timestamp_start=0, proxy_mode=ProxyMode.parse("regular")
    )
    client.state = ConnectionState.OPEN
    return Context(client, Options())


class Made(Layer):
    """Stands for the HTTP layer."""

    def __init__(self, context: Context, protocol: ClientProtocol) -> None:
        super().__init__(context)
        self.protocol = protocol

    def _handle_event(self, event: events.Event) -> object:  # type: ignore[override]
        yield from ()


CHOOSER = NextLayerChooser(lambda context, protocol: cast("HttpLayer", Made(context, protocol)))


def chosen(where: Context) -> Layer | None:
    data = NextLayer(where)
    CHOOSER.next_layer(data)
    return data.layer


@pytest.mark.parametrize("encrypted", [True, False])
def test_the_door_says_whether_there_is_tls(encrypted: bool) -> None:
    where = context()
    RootLayer(where, encrypted=encrypted)
    assert isinstance(chosen(where), SandboxTlsLayer if encrypted else Made)


@pytest.mark.parametrize(("alpn", "protocol"), [(b"h2", "h2"), (b"http/1.1", "http/1.1"), (None, "http/1.1")])
def test_above_tls_is_what_was_agreed_on(alpn: bytes | None, protocol: str) -> None:
    where = context()
    RootLayer(where, encrypted=True)
    SandboxTlsLayer(where)
    where.client.alpn = alpn
    layer = chosen(where)
    assert isinstance(layer, Made)
    assert layer.protocol == protocol


def test_nothing_comes_above_http_nor_out_of_nowhere() -> None:
    """TLS inside of TLS, a tunnel in a tunnel: no layer is set, and the guard ends the connection."""
    assert chosen(context()) is None
    where = context()
    Made(where, "http/1.1")
    assert chosen(where) is None


def test_the_layer_is_asked_for_before_a_byte_has_come() -> None:
    where = context()
    entry = RootLayer(where, encrypted=True)
    [hook] = list(entry.handle_event(events.Start()))
    assert isinstance(hook, NextLayerHook)
