"""An upstream that speaks in the same write as the last message of its TLS handshake.

asyncio's and the ssl module's servers answer in a write of their own. nginx does not, with TLS 1.2: its
SETTINGS follow its Finished at once. With TLS 1.3 a server may even speak before the client's Finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from OpenSSL import SSL

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import Channel, EndedError
from tests.proxy.lab.server import Link, Upstream

_lib = SSL._lib  # type: ignore[attr-defined]
_ffi = SSL._ffi  # type: ignore[attr-defined]

TlsVersion = Literal["TLSv1.2", "TLSv1.3"]
_VERSIONS = {"TLSv1.2": SSL.TLS1_2_VERSION, "TLSv1.3": SSL.TLS1_3_VERSION}
WINDOW_BYTES = 1024 * 1024
"""Both windows of the HTTP/2 server. They are announced with its first bytes, and never renewed."""


@dataclass(slots=True)
class Handshake:
    """A TLS handshake, as the server saw it."""

    version: str
    resumed: bool
    spoke_at_once: bool
    """The first bytes of the application went out with the server's last message."""


class EagerUpstream(Upstream):
    """Serves HTTP/2, or says `greeting` and then reads to the end."""

    def __init__(self, certs: Certificates, name: str, version: TlsVersion, greeting: bytes = b"") -> None:
        """An empty `greeting` is the preface of an HTTP/2 server."""
        super().__init__()
        self._context = SSL.Context(SSL.TLS_SERVER_METHOD)
        self._context.set_min_proto_version(_VERSIONS[version])
        self._context.set_max_proto_version(_VERSIONS[version])
        self._context.set_session_id(b"eager")
        certs.leaf(name).configure_cert(self._context)
        self._alpn = b"http/1.1" if greeting else b"h2"
        self._context.set_alpn_select_callback(
            lambda _, asked: self._alpn if self._alpn in asked else SSL.NO_OVERLAPPING_PROTOCOLS
        )
        self._version = version
        self._greeting = greeting
        self.handshakes: list[Handshake] = []
        self.bodies: list[int] = []
        """Bytes of each request body over HTTP/2."""

    async def serve(self, link: Link, channel: Channel) -> None:
        tls = SSL.Connection(self._context, None)
        tls.set_accept_state()
        h2 = None if self._greeting else _http2_server()
        greeting = self._greeting if h2 is None else h2.data_to_send()
        at_once = await self._shake(tls, channel, greeting)
        if not at_once:
            tls.sendall(greeting)
        await _flush(tls, channel)
        resumed = bool(_lib.SSL_session_reused(tls._ssl))
        self.handshakes.append(Handshake(tls.get_protocol_version_name(), resumed, at_once))
        await self.changed()
        while data := await _read(tls, channel):
            if h2 is not None:
                self._answer(h2, data)
                tls.sendall(h2.data_to_send())
                await _flush(tls, channel)

    async def _shake(self, tls: SSL.Connection, channel: Channel, greeting: bytes) -> bool:
        """Shake hands; return whether the greeting could go out with the last message of the server."""
        tls.bio_write(await _record(channel))
        is_early = self._version == "TLSv1.3"
        if is_early:
            _say_early(tls, greeting)
        while True:
            try:
                tls.do_handshake()
            except SSL.WantReadError:
                await _flush(tls, channel)
                tls.bio_write(await channel.some())
            else:
                break
        if not is_early and not _lib.SSL_session_reused(tls._ssl):
            # The server's Finished is the last message of a full handshake of TLS 1.2, and still waits.
            tls.sendall(greeting)
            return True
        return is_early

    def _answer(self, h2: H2Connection, data: bytes) -> None:
        """Answer each request with 200 once it is whole; no window is opened again."""
        for event in h2.receive_data(data):
            if isinstance(event, events.RequestReceived):
                self.bodies.append(0)
            elif isinstance(event, events.DataReceived):
                self.bodies[-1] += len(event.data or b"")
            elif isinstance(event, events.StreamEnded) and event.stream_id:
                h2.send_headers(event.stream_id, [(":status", "200")], end_stream=True)


def _http2_server() -> H2Connection:
    h2 = H2Connection(H2Configuration(client_side=False))
    h2.local_settings = Settings(
        client=False, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES}
    )
    h2.initiate_connection()
    h2.increment_flow_control_window(WINDOW_BYTES)
    return h2


def _say_early(tls: SSL.Connection, data: bytes) -> None:
    """Say this with the server's Finished of TLS 1.3, before that of the client has come."""
    ssl, count = tls._ssl, _ffi.new("size_t *")
    _lib.SSL_read_early_data(ssl, _ffi.new("char[]", 1), 1, count)
    if not _lib.SSL_write_early_data(ssl, data, len(data), count) or count[0] != len(data):
        raise RuntimeError("OpenSSL sends no data of 0.5 RTT")


async def _record(channel: Channel) -> bytes:
    """The first record of a client, which is its hello."""
    head = await channel.exactly(5)
    return head + await channel.exactly(int.from_bytes(head[3:]))


async def _read(tls: SSL.Connection, channel: Channel) -> bytes:
    while True:
        try:
            return bytes(tls.recv(1 << 16))
        except SSL.WantReadError:
            data = await channel.some()
            if not data:
                raise EndedError("the client left") from None
            tls.bio_write(data)
        except SSL.ZeroReturnError:
            return b""


async def _flush(tls: SSL.Connection, channel: Channel) -> None:
    parts = []
    while True:
        try:
            parts.append(tls.bio_read(1 << 16))
        except SSL.WantReadError:
            break
    # In one write, so that the client reads it at once.
    if parts:
        await channel.send(b"".join(parts))
