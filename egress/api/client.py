"""The client of the API: one call, one answer, over connections that are kept for the next call.

Any number of threads may use a client. `close` ends the connections of calls that are under way, so that
these return with `ApiLostError`. An answer that is no success raises `ApiProblemError` with its problem.
"""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Self, override

import msgspec

from egress.api.endpoint import ApiEndpoint
from egress.api.operations import OPERATIONS
from egress.api.schema import MAX_PIECE_BYTES, Problem
from egress.api.websocket_client import WebSocketClient, WebSocketLostError

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MAX_PROBLEM_BYTES: Final = 64 * 1024
_MAX_EVENT_BYTES: Final = 8 * MAX_PIECE_BYTES
"""The longest line of an event: a piece in which each byte may be escaped."""
_MAX_KEPT: Final = 8
"""Connections that are kept for later calls."""
_MAX_KEPT_SECONDS: Final = 30.0
"""Shorter than a server keeps a silent connection, so that it does not end under a request."""
_NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})
type Query = Mapping[str, str] | Sequence[tuple[str, str]]

_ERRORS: Final = (OSError, http.client.HTTPException)


class ApiLostError(OSError):
    """The connection to the server ended, or could not be made. Callers translate it."""


class ApiProblemError(Exception):
    """The server refused, or failed. Callers translate it."""

    def __init__(self, problem: Problem, status: int) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.status = status


class ApiClient:
    """The calls of one program to one server."""

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._kept: list[_KeptConnection] = []
        self._under_way: set[_KeptConnection | WebSocketClient] = set()
        self._is_closed = False

    @property
    def endpoint(self) -> ApiEndpoint:
        return self._endpoint

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """End the connections. Calls that are under way raise `ApiLostError`."""
        with self._lock:
            self._is_closed = True
            under_way, kept, self._kept = list(self._under_way), self._kept, []
        for each in under_way:
            each.end()
        for connection in kept:
            connection.close()

    def call[T: msgspec.Struct](
        self,
        answer: type[T],
        name: str,
        parts: Mapping[str, str] = _NO_PARTS,
        query: Query = _NO_PARTS,
        body: msgspec.Struct | None = None,
    ) -> T:
        """Make a call, and return its answer."""
        with self._request(name, parts, query, _encoded(body)) as (_, response):
            try:
                return msgspec.json.decode(response.read(_MAX_ANSWER_BYTES), type=answer)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise _no_answer() from None

    def tell(
        self,
        name: str,
        parts: Mapping[str, str] = _NO_PARTS,
        query: Query = _NO_PARTS,
        body: msgspec.Struct | None = None,
    ) -> None:
        """Make a call that has no answer."""
        with self._request(name, parts, query, _encoded(body)) as (_, response):
            response.read(_MAX_PROBLEM_BYTES)

    def send(self, name: str, parts: Mapping[str, str], query: Query, pieces: Iterable[bytes]) -> None:
        """Make a call whose request is a stream. An error of the stream itself is raised as it is."""
        source = _Source(pieces)
        try:
            with self._request(name, parts, query, source) as (_, response):
                response.read(_MAX_PROBLEM_BYTES)
        except ApiLostError:
            if source.error is not None:
                raise source.error from None
            raise

    @contextmanager
    def receive(self, name: str, parts: Mapping[str, str], query: Query) -> Iterator[Iterator[bytes]]:
        """Make a call whose answer is a stream."""
        with self._request(name, parts, query, b"", keep=False) as (_, response):
            yield _pieces(response)

    def fetch(self, name: str, parts: Mapping[str, str], query: Query) -> tuple[bytes, Mapping[str, str]]:
        """Make a call whose answer is bytes, and return them with the headers."""
        with self._request(name, parts, query, b"") as (_, response):
            return response.read(_MAX_ANSWER_BYTES), response.headers  # type: ignore[return-value]

    @contextmanager
    def follow[T](
        self,
        event: type[T],
        name: str,
        parts: Mapping[str, str] = _NO_PARTS,
        query: Query = _NO_PARTS,
        body: msgspec.Struct | None = None,
        *,
        keep: bool = False,
    ) -> Iterator[EventStream[T]]:
        """Make a call whose answer is a stream of server-sent events. It ends with the connection.

        With `keep`, a stream that is read to its end leaves its connection to the next call: it must not be
        ended by another thread then.
        """
        data = _encoded(body)
        with self._request(name, parts, query, data, keep=keep, accept="text/event-stream") as opened:
            yield EventStream(event, *opened)

    def open_stream(self, name: str, parts: Mapping[str, str], query: Query = _NO_PARTS) -> WebSocketClient:
        """Open the WebSocket of an operation; `leave_stream` closes it."""
        opened = WebSocketClient(self._connect(), self._endpoint, OPERATIONS[name].target(parts, query))
        with self._lock:
            self._under_way.add(opened)
            if self._is_closed:
                opened.end()
        refusal: tuple[int, bytes] | None = None
        is_open = False
        try:
            refusal = opened.shake_hands()
            is_open = refusal is None
        except WebSocketLostError as error:
            raise _lost(error) from None
        finally:
            if not is_open:
                self.leave_stream(opened)
        if refusal is not None:
            raise _problem(*refusal)
        return opened

    def leave_stream(self, stream: WebSocketClient) -> None:
        """Close a WebSocket."""
        with self._lock:
            self._under_way.discard(stream)
        stream.close()

    # Connections

    @contextmanager
    def _request(
        self,
        name: str,
        parts: Mapping[str, str],
        query: Query,
        body: bytes | Iterable[bytes],
        *,
        keep: bool = True,
        accept: str = "",
    ) -> Iterator[tuple[_KeptConnection, http.client.HTTPResponse]]:
        operation = OPERATIONS[name]
        connection = self._take()
        is_reusable = False
        try:
            response = connection.ask(operation.method, operation.target(parts, query), body, accept)
            # A redirect is no success either, and is not followed: the token is for this server alone.
            if response.status >= http.client.MULTIPLE_CHOICES:
                raise _problem(response.status, response.read(_MAX_PROBLEM_BYTES))
            yield connection, response
            is_reusable = keep and response.isclosed()
        except _ERRORS as error:
            raise error if isinstance(error, ApiLostError) else _lost(error) from None
        finally:
            self._give_back(connection, is_reusable=is_reusable)

    def _take(self) -> _KeptConnection:
        with self._lock:
            kept = None
            while self._kept and kept is None:
                kept = self._kept.pop()
                if not kept.is_fresh:
                    kept.close()
                    kept = None
        connection = kept or _KeptConnection(self._endpoint, self._connect())
        with self._lock:
            if not self._is_closed:
                self._under_way.add(connection)
                return connection
        connection.close()
        raise _closed()

    def _give_back(self, connection: _KeptConnection, *, is_reusable: bool) -> None:
        with self._lock:
            self._under_way.discard(connection)
            if is_reusable and not self._is_closed and len(self._kept) < _MAX_KEPT:
                connection.used = time.monotonic()
                self._kept.append(connection)
                return
        connection.close()

    def _connect(self) -> socket.socket:
        try:
            return self._endpoint.connect()
        except OSError as error:
            raise ApiLostError(error.errno, error.strerror) from error


class _KeptConnection(http.client.HTTPConnection):
    """One connection, for one call after the other."""

    def __init__(self, endpoint: ApiEndpoint, sock: socket.socket) -> None:
        super().__init__(endpoint.host)
        self.sock = sock
        self.used = time.monotonic()
        self._headers = dict(endpoint.headers)

    @override
    def connect(self) -> None:
        # Without this the library would connect anew, to the host of the name.
        raise ApiLostError("the connection has ended")

    @property
    def is_fresh(self) -> bool:
        """Whether the server has neither closed the connection nor is about to."""
        if self.sock is None or time.monotonic() - self.used > _MAX_KEPT_SECONDS:
            return False
        # Nothing may come between two calls, so a readable socket has ended.
        return not select.select([self.sock], [], [], 0)[0]

    def ask(
        self, method: str, target: str, body: bytes | Iterable[bytes], accept: str = ""
    ) -> http.client.HTTPResponse:
        """Send a request, and return its answer, whose body is still to be read."""
        headers = dict(self._headers)
        if accept:
            headers["accept"] = accept
        if isinstance(body, bytes) and body:
            headers["content-type"] = "application/json"
        is_stream = not isinstance(body, bytes)
        try:
            self.request(method, target, body or None, headers, encode_chunked=is_stream)
        except (BrokenPipeError, ConnectionResetError):
            # The server may have answered early and closed: the reason is in that answer.
            if not is_stream:
                raise
        return self.getresponse()

    def end(self) -> None:
        """Shut the connection down, so that the thread that waits for it returns."""
        if self.sock is not None:
            with _ignored():
                self.sock.shutdown(socket.SHUT_RDWR)


class EventStream[T]:
    """Server-sent events as they come, until the connection ends."""

    def __init__(
        self, kind: type[T], connection: _KeptConnection, response: http.client.HTTPResponse
    ) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._connection = connection
        self._response = response
        self.name = ""
        """The name of the last event."""

    def end(self) -> None:
        """End the connection, from any thread: whoever waits for an event gets the end."""
        self._connection.end()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        while True:
            try:
                line = self._response.readline(_MAX_EVENT_BYTES)
            except _ERRORS:
                raise StopIteration from None
            if not line:
                raise StopIteration
            if line.startswith(b"event: "):
                self.name = line[7:].strip().decode("utf-8", "replace")
            # Every event of ours is one line of data; other lines keep the connection alive.
            if line.startswith(b"data: "):
                return self._decode(line[6:])

    def _decode(self, data: bytes) -> T:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _no_answer() from None


class _Source:
    """The pieces of a request, and the error with which they ended."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except Exception as error:
            self.error = error
            raise


def _encoded(body: msgspec.Struct | None) -> bytes:
    return b"" if body is None else msgspec.json.encode(body)


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := response.read(4 * MAX_PIECE_BYTES):
        yield piece


def _problem(status: int, body: bytes) -> ApiProblemError:
    try:
        return ApiProblemError(msgspec.json.decode(body, type=Problem), status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = Problem(type="fleet.protocol", message=f"the server answered {status}")
        return ApiProblemError(problem, status)


def _lost(error: Exception) -> ApiLostError:
    number, text = getattr(error, "errno", None), getattr(error, "strerror", None)
    return ApiLostError(number, text or "the connection ended")


def _closed() -> ApiLostError:
    return ApiLostError("this client is closed")


def _no_answer() -> ApiProblemError:
    return ApiProblemError(
        Problem(
            type="fleet.protocol",
            message="the other side of the socket broke the protocol of the API",
            hint="run both in the same version of egress",
        ),
        0,
    )


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except OSError:
        return


def decoded(message: str, kind: Any) -> Any:  # noqa: ANN401 - the type is that of the messages of a stream
    """Decode a text message of a stream. Raises `ApiProblemError` for any other."""
    try:
        return msgspec.json.decode(message, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise _no_answer() from None
