"""TLS towards the sandbox and towards the upstream: mitmproxy's layers, with a shorter way for data.

mitmproxy's layers do the whole handshake. After it nearly every event is a read, and each would pass four
generators and end three loops by an exception; here it passes one. A record that cannot be read ends the
connection, while mitmproxy would log and skip it.
"""

from __future__ import annotations

from typing import Final

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.tunnel import TunnelState
from mitmproxy.tls import ClientHelloData, TlsData
from OpenSSL import SSL

from egress.addons.mitm_layers import (
    ClientTLSLayer,
    ServerTLSLayer,
    TlsClienthelloHook,
    TlsFailedClientHook,
    TLSLayer,
)
from egress.errors import WireError
from egress.tls.client_hello import HelloReader

_lib = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001 - how much waits in a BIO is shown nowhere else
_ffi = SSL._ffi  # type: ignore[attr-defined]  # noqa: SLF001 - same
_NULL_POINTER = _ffi.new("char *[1]")
_NEW_BUFFER = _ffi.new_allocator(should_clear_after_alloc=False)
_CHAR_ARRAY = _ffi.typeof("char[]")
_RECORD_BYTES: Final = 16 * 1024
"""The largest plain text of a record; a read returns a single record."""
MAX_ANSWERED_BYTES: Final = 16 * 1024
"""Bytes that TLS may say by itself once it stands: tickets, and new keys when the peer asks for them. A peer
that asks for ever and does not read would have the answers pile up, unseen by everything above."""


class ConnectionLost(events.ConnectionClosed):
    """A connection broke: unlike an end made by the peer, more bytes may have been on their way."""


class _QuickLayer(TLSLayer):
    """The data path of both sides."""

    _answered = 0
    _has_spoken = False
    is_broken = False
    """The connection below broke, an alert has ended it, or a record could not be read."""
    has_said_goodbye = False
    """The peer has ended with close_notify. OpenSSL's own flag is also set by an alert that breaks it off."""

    def handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if self.tunnel_state is not TunnelState.OPEN or self._paused is not None:
            return super().handle_event(event)
        if not isinstance(event, events.ConnectionEvent) or event.connection is not self.conn:
            return self._to_child(event)
        if type(event) is events.DataReceived:
            return self.receive_data(event.data)
        if isinstance(event, ConnectionLost):
            # mitmproxy reports any end as the same event to the layer above.
            self.is_broken = True
        return super().handle_event(event)

    def on_handshake_error(self, err: str) -> CommandGenerator[None]:
        """Send the alert with the reason, which mitmproxy leaves in OpenSSL's buffer."""
        if self.tls is not None:
            yield from self.tls_interact()
        yield from super().on_handshake_error(err)

    def _to_child(self, event: events.Event) -> CommandGenerator[None]:
        for command in self.child_layer.handle_event(event):
            if type(command) is commands.SendData:
                if command.connection is not self.conn:
                    yield command
                elif coded := self.encrypted(command.data):
                    yield commands.SendData(self.conn, coded)
            elif isinstance(command, commands.ConnectionCommand):
                yield from self._handle_command(command)
            else:
                yield command

    def receive_data(self, data: bytes) -> CommandGenerator[None]:
        """Decrypt, and hand the plain text to the layer above; bytes behind the end are dropped."""
        if self._has_ended():
            return
        plain = self._decrypted(data)
        # Sent after reading, which may have produced tickets, key updates or alerts.
        coded = self._to_say()
        if coded:
            self._answered += len(coded)
            self.is_broken = self.is_broken or self._answered > MAX_ANSWERED_BYTES
            yield commands.SendData(self.conn, coded)
        if plain:
            self._has_spoken = True
            # Data that comes with the end of the handshake is queued behind Start.
            is_open = self.tunnel_state is TunnelState.OPEN
            received = events.DataReceived(self.conn, plain)
            yield from self._to_child(received) if is_open else self.event_to_child(received)
        if self._has_ended():
            self.conn.state &= ~ConnectionState.CAN_READ
            yield from self.event_to_child(events.ConnectionClosed(self.conn))
        if self.is_broken:
            yield from self._broken()
            yield commands.CloseConnection(self.conn)

    def _broken(self) -> CommandGenerator[None]:
        """Report a connection that was broken off, or could not be read."""
        yield from ()

    def _has_ended(self) -> bool:
        return self.is_broken or self.has_said_goodbye

    def _decrypted(self, data: bytes) -> bytes:
        """Return the plain text of a read, and note the end of the connection."""
        tls = self.tls
        pieces: list[bytes] = []
        try:
            if data:
                _hand_in(tls, data)
            while _waiting(tls._into_ssl) or tls.pending():  # noqa: SLF001 - as above
                pieces.append(_read(tls))
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self.has_said_goodbye = True
        except SSL.Error:
            self.is_broken = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send_data(self, data: bytes) -> CommandGenerator[None]:
        """Encrypt and send."""
        coded = self.encrypted(data)
        if coded:
            yield commands.SendData(self.conn, coded)

    def encrypted(self, data: bytes) -> bytes:
        """Return the encrypted text; empty if the peer has closed or broken the connection."""
        if self.is_broken:
            return b""
        try:
            _write(self.tls, data)
        except (SSL.ZeroReturnError, SSL.SysCallError):
            # The peer reads no more, so the data is dropped.
            return b""
        return self._to_say()

    def tls_interact(self) -> CommandGenerator[None]:
        """Send OpenSSL's pending output."""
        coded = self._to_say()
        if coded:
            yield commands.SendData(self.conn, coded)

    def _to_say(self) -> bytes:
        bio = self.tls._from_ssl  # noqa: SLF001 - as above
        waiting = _waiting(bio)
        if not waiting:
            return b""
        room = _NEW_BUFFER(_CHAR_ARRAY, waiting)
        said: bytes = _ffi.unpack(room, _lib.BIO_read(bio, room, waiting))
        return said


class SandboxTlsLayer(_QuickLayer, ClientTLSLayer):
    """TLS towards the sandbox, ended properly: without it a client cannot tell an end from a cut.

    The hello is read by the reader of the ingress, so no two parsers can disagree on the name in it.
    mitmproxy's reader is much slower, and leaves twenty objects that only the garbage collector can free.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._reader = HelloReader()

    def receive_handshake_data(self, data: bytes) -> CommandGenerator[tuple[bool, str | None]]:
        """Have the hello accepted, then hand all that has come to OpenSSL."""
        if self.client_hello_parsed:
            return (yield from super().receive_handshake_data(data))
        self.recv_buffer.extend(data)
        try:
            hello = self._reader.feed(data)
        except WireError as error:
            return False, error.message
        if hello is None:
            return False, None
        self.client_hello_parsed = True
        self.conn.sni = hello.sni or None
        self.conn.alpn_offers = [name.encode("latin-1") for name in hello.alpn]
        # Our hello in place of mitmproxy's: the hook takes no other.
        yield TlsClienthelloHook(ClientHelloData(self.context, hello))  # type: ignore[arg-type]
        yield from self.start_tls()
        if not self.conn.connected:
            return False, "connection closed early"
        outcome = yield from super().receive_handshake_data(bytes(self.recv_buffer))
        self.recv_buffer.clear()
        return outcome

    def _broken(self) -> CommandGenerator[None]:
        # A client may reject the certificate after our side of the handshake is complete.
        if not self._has_spoken:
            hook = TlsFailedClientHook(TlsData(self.conn, self.context, self.tls))
            # No layer waits for the result of this hook.
            hook.blocking = False
            yield hook

    def send_close(self, command: commands.CloseConnection) -> CommandGenerator[None]:
        if self.tls is not None:
            try:
                self.tls.shutdown()
                yield from self.tls_interact()
            except SSL.Error:
                # The client has gone already, or never finished its handshake.
                pass
        yield from super().send_close(command)


class UpstreamTlsLayer(_QuickLayer, ServerTLSLayer):
    """TLS towards an upstream."""


# The functions of pyOpenSSL query the error queue after every call, which takes as long again.


def _hand_in(tls: SSL.Connection, data: bytes) -> None:
    """Hand a read to OpenSSL. Raises the exceptions of `bio_write`."""
    bio = tls._into_ssl  # noqa: SLF001 - as above
    if _lib.BIO_write(bio, data, len(data)) != len(data):
        raise SSL.Error


def _read(tls: SSL.Connection) -> bytes:
    """Return the plain text of the next record. Raises the exceptions of `recv`."""
    ssl = tls._ssl  # noqa: SLF001 - as above
    room = _NEW_BUFFER(_CHAR_ARRAY, _RECORD_BYTES)
    count = _lib.SSL_read(ssl, room, _RECORD_BYTES)
    if count <= 0:
        tls._raise_ssl_error(ssl, count)  # noqa: SLF001 - as above
        raise SSL.Error
    plain: bytes = _ffi.unpack(room, count)
    return plain


def _write(tls: SSL.Connection, data: bytes) -> None:
    """Encrypt all of the data. Raises the exceptions of `sendall`."""
    if not data:
        return
    ssl = tls._ssl  # noqa: SLF001 - as above
    count = _lib.SSL_write(ssl, data, len(data))
    if count <= 0:
        tls._raise_ssl_error(ssl, count)  # noqa: SLF001 - as above
        raise SSL.Error
    if count < len(data):
        # OpenSSL has made a single record; the rest follows.
        tls.sendall(memoryview(data)[count:])


def _waiting(bio: object) -> int:
    """How many bytes wait in a BIO."""
    count: int = _lib.BIO_get_mem_data(bio, _NULL_POINTER)
    return count
