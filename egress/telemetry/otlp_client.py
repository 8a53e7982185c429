"""The connection to the collector: OTLP over HTTP, one request at a time, in the thread that exports.

The proxy process dials the collector itself: no rule of a sandbox opens or closes this way, and no variable
such as HTTP_PROXY changes it. A redirect is not followed, since the headers may hold a token. Of a reply at
most a few kilobytes are read, whatever the collector sends.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from egress.errors import reason_of
from egress.telemetry.otlp_endpoint import CollectorEndpoint, Signal

OTLP_TIMEOUT: Final = 10.0
"""Seconds for each step of a request: the dial, TLS, a write, a read."""
MAX_REPLY_BYTES: Final = 64 * 1024
_MAX_RETRY_AFTER: Final = 30.0
RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the standard asks for another try."""


@dataclass(frozen=True, slots=True)
class CollectorReply:
    """What came of a request."""

    status: int
    """0 if no reply came."""
    body: bytes = b""
    cause: str = ""
    """Why no reply came; never a text that the collector sent."""
    retry_after: float = 0.0
    """Seconds that the collector asks to wait."""

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_worth_retrying(self) -> bool:
        return self.status in (0, *RETRIED_STATUSES)


class CollectorClient:
    """Sends messages to one collector, over a connection that is kept."""

    def __init__(
        self,
        endpoint: CollectorEndpoint,
        headers: Callable[[], Mapping[str, str]],
        user_agent: str,
        tls: ssl.SSLContext | None,
        timeout: float = OTLP_TIMEOUT,
    ) -> None:
        """`headers` returns those that the collector asks for, as they are now."""
        self._endpoint = endpoint
        self._headers = headers
        self._own = {"user-agent": user_agent, "content-type": "application/x-protobuf"}
        self._tls = tls
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def post(self, signal: Signal, message: bytes) -> CollectorReply:
        """Send a message. Raises nothing that a collector or a network can bring about."""
        is_kept = self._connection is not None
        reply = self._posted(signal, message)
        # A collector may close a kept connection at any time: that is no failure of the message.
        if reply.status == 0 and is_kept:
            reply = self._posted(signal, message)
        return reply

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _posted(self, signal: Signal, message: bytes) -> CollectorReply:
        connection = self._connection or self._new_connection()
        self._connection = connection
        try:
            connection.request(
                "POST", f"{self._endpoint.path}/v1/{signal}", message, {**self._headers(), **self._own}
            )
            response = connection.getresponse()
            body = response.read(MAX_REPLY_BYTES)
            retry_after = _seconds(response.getheader("retry-after", ""))
            # What is left of a reply must not be taken for the next one.
            if not response.isclosed() or response.will_close:
                self.close()
            return CollectorReply(response.status, body, retry_after=retry_after)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return CollectorReply(0, cause=_cause(error))

    def _new_connection(self) -> http.client.HTTPConnection:
        at = self._endpoint
        if self._tls is None:
            return http.client.HTTPConnection(at.host, at.port, timeout=self._timeout)
        return http.client.HTTPSConnection(at.host, at.port, timeout=self._timeout, context=self._tls)


def collector_tls(roots: bytes) -> ssl.SSLContext:
    """Return the TLS settings for a collector: these roots in PEM, the name verified, TLS 1.2 or newer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=roots.decode("ascii", "replace"))
    return context


def _cause(error: Exception) -> str:
    """Say what failed in our own words: a text of the other side may hold anything."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.errno is not None:
        return reason_of(error)
    return "it sent what is no reply"


def _seconds(text: str | None) -> float:
    """Read the seconds that a collector asks to wait, within bounds; 0 for a date, which is not read."""
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 10
    return min(float(text), _MAX_RETRY_AFTER) if text is not None and is_number else 0.0
