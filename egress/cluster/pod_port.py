"""A connection to a TCP port of a pod, over one WebSocket. The kubelet dials the pod's own loopback.

What the kubelet says on the error channel ends the connection: a port on which nothing listens, for example.
"""

from __future__ import annotations

from egress.api.websocket_client import WebSocketClient, WebSocketLostError
from egress.cluster import stream_channels as channels
from egress.cluster.api_server import ClusterApi
from egress.cluster.pod_stream import open_stream
from egress.cluster.stream_channels import PortChannels
from egress.errors import WireError


class PodPort:
    """A connection; see `egress.api.websocket_as_socket.ByteStream`."""

    def __init__(self, stream: WebSocketClient, port: int) -> None:
        self._stream = stream
        self._channels = PortChannels(port)

    def send_bytes(self, data: bytes) -> None:
        for start in range(0, len(data), channels.PIECE_BYTES):
            self._stream.send_bytes(bytes([channels.PORT_DATA]) + data[start : start + channels.PIECE_BYTES])

    def receive(self) -> bytes | None:
        """Return the next bytes; None at the end. Raises `WebSocketLostError`."""
        while (message := self._stream.receive()) is not None:
            try:
                channel, data = self._channels.take(message)
            except WireError as error:
                raise WebSocketLostError(error.message) from None
            if data and channel == channels.PORT_ERROR:
                return None
            if data:
                return data
        return None

    def end(self) -> None:
        self._stream.end()

    def close(self) -> None:
        self._stream.close()


def open_port(api: ClusterApi, pod: str, port: int) -> PodPort:
    """Connect to a port. Raises `ApiRefusedError` and `UnreadableError`, and nothing for a closed port."""
    path = f"{api.namespaced('pods', pod)}/portforward?ports={port}"
    return PodPort(open_stream(api, path, channels.PORT_PROTOCOL), port)
