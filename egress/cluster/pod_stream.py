"""Opens a stream to a pod: a WebSocket of the API server, behind the same proof as every call."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from egress.api.tls_socket import open_tls
from egress.api.websocket_client import WebSocketClient, WebSocketLostError
from egress.cluster.api_call import refusal
from egress.cluster.api_server import ClusterApi
from egress.errors import UnreadableError, UsageError, reason_of

_CONNECT_SECONDS: Final = 20.0
_HANDSHAKE_SECONDS: Final = 60.0
_KEEPALIVE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class _StreamEndpoint:
    """The fields of a WebSocket's request."""

    api: ClusterApi

    @property
    def host(self) -> str:
        return self.api.host_header

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return self.api.headers()

    def connect(self) -> socket.socket:
        sock = socket.create_connection((self.api.host, self.api.port), _CONNECT_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A stream may be silent for hours: an end without a word is noticed, and nothing between forgets it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        return open_tls(sock, self.api.context(), self.api.tls_name)


def open_stream(api: ClusterApi, path: str, protocol: str) -> WebSocketClient:
    """Open a WebSocket that speaks this protocol. Raises `ApiRefusedError` and `UnreadableError`."""
    if not path.isascii() or not path.isprintable() or " " in path:
        raise UsageError("the path of a stream is not plain text", "quote its parts")
    endpoint = _StreamEndpoint(api)
    try:
        sock = endpoint.connect()
    except OSError as error:
        raise _no_answer(api, reason_of(error)) from None
    stream = WebSocketClient(sock, endpoint, f"{api.prefix}{path}", protocol)
    try:
        sock.settimeout(_HANDSHAKE_SECONDS)
        _check_accepted(stream.shake_hands(), path)
        sock.settimeout(None)
    except WebSocketLostError as error:
        stream.close()
        raise _no_answer(api, str(error)) from None
    except BaseException:
        stream.close()
        raise
    return stream


def _check_accepted(refused: tuple[int, bytes] | None, path: str) -> None:
    if refused is None:
        return
    status, body = refused
    answer: dict[str, object] = {}
    with suppress(msgspec.MsgspecError, RecursionError):
        answer = msgspec.json.decode(body, type=dict[str, object])
    raise refusal(status, answer, "GET", path)


def _no_answer(api: ClusterApi, reason: str) -> UnreadableError:
    return UnreadableError(
        f"the API server at {api.host_header} opened no stream: {reason}",
        "check that it runs, its address and its certificate; it has to be Kubernetes 1.30 or newer",
    )
