"""Which layer reads a connection: TLS, then HTTP, and nothing else.

The door has settled where the connection goes and whether it is encrypted, so nothing is guessed from
bytes here. mitmproxy's own chooser would, and would relay what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer, NextLayer

from egress.addons.http import HttpLayer
from egress.addons.tls_layers import SandboxTlsLayer
from egress.relay.relay import Protocol

HTTP2: Final = b"h2"

MakeLayer = Callable[[Context, Protocol], HttpLayer]
"""Makes the layer of a client connection, once it is known which protocol it speaks."""


class Entry(Layer):
    """The lowest layer: the destination is known, whatever comes is for the layer above."""

    def __init__(self, context: Context, *, encrypted: bool) -> None:
        super().__init__(context)
        self.encrypted = encrypted
        self.child_layer: Layer = NextLayer(context, ask_on_start=True)

    def handle_event(self, event: events.Event) -> CommandGenerator[None]:
        return self.child_layer.handle_event(event)

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        yield from self.handle_event(event)


class NextLayerChooser:
    """The add-on that answers mitmproxy's question for the next layer."""

    def __init__(self, make: MakeLayer) -> None:
        self._make = make

    def next_layer(self, data: NextLayer) -> None:
        """Choose. Where nothing fits no layer is set, and the guard ends the connection."""
        context = data.context
        below = context.layers[-1] if context.layers else None
        if isinstance(below, Entry):
            data.layer = SandboxTlsLayer(context) if below.encrypted else self._make(context, "http/1.1")
        elif isinstance(below, SandboxTlsLayer):
            data.layer = self._make(context, "h2" if context.client.alpn == HTTP2 else "http/1.1")
