"""Call the API server, from the request to the whole answer: reads, creates, changes and deletes.

The call blocks; a program of asyncio gives it to a thread. Nothing is sent twice: whether a request that got
no answer was carried out is for the caller to find out.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from egress.cluster.api_server import ClusterApi
from egress.cluster.request_head import request_head
from egress.errors import ContentError, UnreadableError, WireError, reason_of
from egress.http1 import Data, End, ResponseHead, ResponseReader

type Json = dict[str, object]
Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
CALL_SECONDS: Final = 60.0
MERGE_PATCH: Final = "application/merge-patch+json"
_READ_BYTES: Final = 256 * 1024
_MAX_REASON_LENGTH: Final = 300
_MAX_CAUSES: Final = 5
_INVALID: Final = 422
_UNAUTHORIZED: Final = 401


class ApiRefusedError(ContentError):
    """The API server answered, and did not do it."""

    code = "cluster.refused"

    def __init__(self, message: str, hint: str, status: int, reason: str) -> None:
        super().__init__(message, hint)
        self.status = status
        self.reason = reason
        """The reason as a word, such as `AlreadyExists`; empty if none was given."""


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """Seconds that the API server has."""

    connect: float = 10.0
    answer: float = CALL_SECONDS
    """From the request to the last byte of the answer."""


def call(
    api: ClusterApi,
    method: Method,
    path: str,
    body: Mapping[str, object] | None = None,
    timeouts: CallTimeouts | None = None,
) -> Json:
    """Make a call, and return the object of the answer. A PATCH is a merge patch.

    Raises `ApiRefusedError` for an answer that is no success, and `UnreadableError` where none comes.
    """
    sent = b"" if body is None else msgspec.json.encode(body)
    kind = MERGE_PATCH if method == "PATCH" else "application/json"
    more = () if body is None else (("Content-Type", kind), ("Content-Length", str(len(sent))))
    head = request_head(api, method, path, more)
    try:
        status, answer = _exchange(api, method, head + sent, timeouts or CallTimeouts())
    except (OSError, WireError) as error:
        reason = error.message if isinstance(error, WireError) else reason_of(error)
        raise UnreadableError(
            f"the API server at {api.host_header} did not answer: {reason}",
            "check that it runs, its address and its certificate",
        ) from None
    found = _object(answer)
    if status == _UNAUTHORIZED and api.plugin is not None:
        # The next call asks the plugin again: a token may end before its time.
        api.plugin.forget()
    if not 200 <= status < 300:
        raise refusal(status, found or {}, method, path)
    if found is None:
        raise UnreadableError(
            f"the API server at {api.host_header} answered without an object of JSON",
            "check that the address is that of an API server",
        )
    return found


def refusal(status: int, answer: Mapping[str, object], method: str, path: str) -> ApiRefusedError:
    """The error for an answer that is no success, with the reason of the API server in one line."""
    reason = answer.get("reason")
    hint = {
        401: "check the token or the certificate by which the API server knows this process",
        403: "give this user or service account the right to do it, or see which admission policy refuses it",
        404: "check its name and its namespace",
    }.get(status, "see the log of the API server")
    target = path.partition("?")[0]
    said = _said(status, answer)
    return ApiRefusedError(
        f"the API server answers {status} to {method} {target}{f': {said}' if said else ''}",
        hint,
        status,
        reason if isinstance(reason, str) else "",
    )


def _said(status: int, answer: Mapping[str, object]) -> str:
    if status == _INVALID:
        # The message quotes the values that were refused, and an object may hold a secret.
        return _one_line(", ".join(_fields(answer)))
    message = answer.get("message")
    return _one_line(message) if isinstance(message, str) else ""


def _fields(answer: Mapping[str, object]) -> list[str]:
    details = answer.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    found = [each for each in causes or () if isinstance(each, dict)] if isinstance(causes, list) else []
    return [f"{each.get('field')} ({each.get('reason')})" for each in found[:_MAX_CAUSES]]


def _one_line(text: str) -> str:
    shown = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return shown[:_MAX_REASON_LENGTH]


def _object(data: bytes) -> Json | None:
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(data, type=dict[str, object])
    return None


def _exchange(api: ClusterApi, method: str, request: bytes, timeouts: CallTimeouts) -> tuple[int, bytes]:
    context = api.context()
    with (
        socket.create_connection((api.host, api.port), timeouts.connect) as plain,
        context.wrap_socket(plain, server_hostname=api.tls_name) as sock,
    ):
        end = time.monotonic() + timeouts.answer
        sock.settimeout(timeouts.answer)
        sock.sendall(request)
        reader = ResponseReader()
        reader.expect(method)
        status, body = 0, bytearray()
        while True:
            # The deadline is that of the whole answer: a byte now and then does not prolong it.
            sock.settimeout(max(0.001, end - time.monotonic()))
            data = sock.recv(_READ_BYTES)
            for event in reader.feed(data) if data else reader.eof():
                if isinstance(event, ResponseHead):
                    status = event.status
                if isinstance(event, Data):
                    body += event.data
                if isinstance(event, End):
                    return status, bytes(body)
            if len(body) > MAX_ANSWER_BYTES:
                raise WireError("The answer is too long.")
            if not data:
                raise WireError("The answer has no end.")
