"""The frames of a WebSocket, read on one side and written anew on the other.

Two wsproto codecs face the peers; no byte of a peer's framing is passed on. Frames of the upstream go through
the exchange: messages piece by piece, so that a secret is found across frames and reads; pings, pongs and
close reasons each on their own. Frames of the sandbox are counted and scanned for canaries. Extensions are
never agreed on: a compressed message could not be searched.

    message     fragments go on as they come; text stays whole characters
    ping, pong  passed on, to be answered by the peer they are meant for, not by us
    close       passed on with its code; the second one ends the exchange
    fault       the peer at fault is told which (RFC 6455, 7.4.1), the other one that its peer has failed
"""

from __future__ import annotations

import base64
import codecs
import hashlib

from wsproto.frame_protocol import CloseReason, Frame, FrameProtocol, Opcode, ParseFailed

from egress.exchange import CutExchange, Exchange
from egress.types import Headers

_HANDSHAKE_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_REASON_BYTES = 123
_CONTROL_OPCODES = frozenset({Opcode.PING, Opcode.PONG, Opcode.CLOSE})
"""Frames that may stand between those of a message."""
_UNSENDABLE_REASONS = frozenset(
    {CloseReason.NO_STATUS_RCVD, CloseReason.ABNORMAL_CLOSURE, CloseReason.TLS_HANDSHAKE_FAILED}
)
_CLIENT_CLOSE_REASONS = {
    "internal": CloseReason.INTERNAL_ERROR,
    "proxy.stopping": CloseReason.GOING_AWAY,
    "upstream.closed": CloseReason.INTERNAL_ERROR,
    "upstream.timeout": CloseReason.INTERNAL_ERROR,
}
"""The reason that a client is given for the end of its WebSocket; for every other end it is the policy. Not
1014, bad gateway: several clients take it for a code that no peer may send."""


class WebSocketFrames:
    """Both directions of one WebSocket."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._client = FrameProtocol(client=False, extensions=[])
        self._upstream = FrameProtocol(client=True, extensions=[])
        # A scrubbed piece may end inside a character; text frames hold whole ones.
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._closed_up = False
        self._closed_down = False
        self.fault = ""
        """The code for a frame that broke the protocol; empty without one."""
        self._fault_reason = CloseReason.PROTOCOL_ERROR

    @classmethod
    def agreed(cls, exchange: Exchange, asked: Headers, answered: Headers) -> WebSocketFrames | None:
        """Begin, if the two heads agree on a WebSocket as we speak it; None where they do not."""
        keys = [value for name, value in asked if name == "sec-websocket-key"]
        accepts = [value for name, value in answered if name == "sec-websocket-accept"]
        extends = any(name == "sec-websocket-extensions" for name, _ in answered)
        if len(keys) != 1 or accepts != [_accept_of(keys[0])] or extends:
            return None
        return cls(exchange)

    @property
    def is_closed(self) -> bool:
        """Both sides have sent their close frames."""
        return self._closed_up and self._closed_down

    @property
    def is_closing(self) -> bool:
        """A side has sent its close frame."""
        return self._closed_up or self._closed_down

    def from_client(self, data: bytes) -> tuple[bytes, bytes] | CutExchange:
        """Take bytes of the sandbox; return the bytes to send up and down, those before a fault too."""
        if self._closed_up:
            return b"", b""
        up = bytearray()
        try:
            self._client.receive_bytes(data)
            for frame in self._client.received_frames():
                cut = self._exchange.request_data(_payload(frame), aside=frame.opcode in _CONTROL_OPCODES)
                if cut is not None:
                    return cut
                up += self._upwards(frame)
        except ParseFailed as error:
            self.fault, self._fault_reason = "request.malformed", error.code
        return bytes(up), b""

    def from_upstream(self, data: bytes) -> tuple[bytes, bytes] | CutExchange:
        """Take bytes of the upstream; return the bytes to send up and down, those before a fault too."""
        if self._closed_down:
            return b"", b""
        down = bytearray()
        try:
            self._upstream.receive_bytes(data)
            for frame in self._upstream.received_frames():
                piece = self._downwards(frame)
                if isinstance(piece, CutExchange):
                    return piece
                down += piece
        except ParseFailed as error:
            self.fault, self._fault_reason = "upstream.malformed", error.code
        return b"", bytes(down)

    def close_frames(self, code: str) -> tuple[bytes, bytes]:
        """Close frames of our own, up and down, where none was passed on yet; `code` is why it ends."""
        to_upstream = CloseReason.GOING_AWAY
        to_client = _CLIENT_CLOSE_REASONS.get(code, CloseReason.POLICY_VIOLATION)
        if self.fault == "request.malformed":
            to_upstream, to_client = CloseReason.INTERNAL_ERROR, self._fault_reason
        elif self.fault:
            to_upstream, to_client = self._fault_reason, CloseReason.INTERNAL_ERROR
        up = b"" if self._closed_up else bytes(self._upstream.close(to_upstream, ""))
        down = b"" if self._closed_down else bytes(self._client.close(to_client, ""))
        self._closed_up = self._closed_down = True
        return up, down

    def _upwards(self, frame: Frame) -> bytes:
        if frame.opcode is Opcode.CLOSE:
            self._closed_up = True
            return bytes(self._upstream.close(*_goodbye(frame.payload)))
        if frame.opcode is Opcode.PING:
            return bytes(self._upstream.ping(_payload(frame)))
        if frame.opcode is Opcode.PONG:
            return bytes(self._upstream.pong(_payload(frame)))
        payload = frame.payload if isinstance(frame.payload, str) else _payload(frame)
        if not payload and not frame.message_finished:
            return b""
        return bytes(self._upstream.send_data(payload, fin=frame.message_finished))

    def _downwards(self, frame: Frame) -> bytes | CutExchange:
        if frame.opcode is Opcode.CLOSE:
            return self._close_down(frame)
        if frame.opcode not in (Opcode.PING, Opcode.PONG):
            return self._message_down(frame)
        payload = self._exchange.control(_payload(frame))
        if isinstance(payload, CutExchange):
            return payload
        say = self._client.ping if frame.opcode is Opcode.PING else self._client.pong
        return bytes(say(payload))

    def _message_down(self, frame: Frame) -> bytes | CutExchange:
        ends = frame.message_finished
        pieces = self._exchange.message(_payload(frame), ends=ends)
        if isinstance(pieces, CutExchange):
            return pieces
        data = b"".join(pieces)
        if isinstance(frame.payload, str):
            text = self._text.decode(data, final=ends)
            return bytes(self._client.send_data(text, fin=ends)) if text or ends else b""
        return bytes(self._client.send_data(data, fin=ends)) if data or ends else b""

    def _close_down(self, frame: Frame) -> bytes | CutExchange:
        code, reason = _goodbye(frame.payload)
        cleaned = self._exchange.control(reason.encode())
        if isinstance(cleaned, CutExchange):
            return cleaned
        self._closed_down = True
        text = cleaned[:_MAX_REASON_BYTES].decode("utf-8", "ignore")
        return bytes(self._client.close(code, text))


def _payload(frame: Frame) -> bytes:
    """The bytes of a frame as they are counted and searched."""
    payload = frame.payload
    if isinstance(payload, tuple):
        return _goodbye(payload)[1].encode()
    return payload.encode() if isinstance(payload, str) else bytes(payload)


def _goodbye(payload: object) -> tuple[int, str]:
    """The code and reason of a close frame, as they can be said again."""
    code, reason = payload if isinstance(payload, tuple) else (CloseReason.NORMAL_CLOSURE, "")
    return (CloseReason.NORMAL_CLOSURE if code in _UNSENDABLE_REASONS else int(code)), reason or ""


def _accept_of(key: str) -> str:
    digest = hashlib.sha1(key.encode("latin-1") + _HANDSHAKE_GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")
