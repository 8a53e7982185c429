"""What a handler sees of a call, and the verdict in what it returns. Strict: an odd value is a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from egress.exchange.handler_call import (
    MAX_ANSWER_BYTES,
    AllowByHandler,
    AnswerByHandler,
    DenyByHandler,
    HandlerCall,
    HandlerFault,
    HandlerVerdict,
)
from egress.handlers.interface import Allow, Answer, Context, Deny, Request
from egress.types import Headers

MAX_HEADERS: Final = 100
MAX_HEADER_CHARS: Final = 64 * 1024
"""Characters of all headers that a handler writes."""
ODD_VALUE: Final = HandlerFault("value")


def seen_by_handler(call: HandlerCall, body: bytes) -> tuple[Request, Context]:
    """Return the request and the context of a call."""
    head, identity = call.head, call.identity
    path, _, query = head.target.partition("?")
    request = Request(
        head.method,
        head.scheme,
        head.host,
        head.port,
        path,
        query,
        tuple(head.headers),
        body if call.reads_body else None,
        head.websocket,
    )
    context = Context(
        identity.sandbox,
        identity.profile,
        call.use.name,
        _params(call.use.params),
        call.rule,
        call.secrets,
        call.facts,
        dict(identity.parameters),
    )
    return request, context


def verdict_of(value: object, request: Request) -> HandlerVerdict:
    """Return what a handler says by its return value."""
    # The exact types: a subclass could say something else each time it is asked.
    if type(value) is Allow:
        return _allow(value, request)
    if type(value) is Answer:
        return _answer(value)
    if type(value) is Deny:
        return DenyByHandler(value.reason) if type(value.reason) is str else ODD_VALUE
    return ODD_VALUE


def _allow(value: Allow, request: Request) -> HandlerVerdict:
    if value == _PLAIN_ALLOW:
        return _ALLOWED
    texts = (value.method, value.path, value.query)
    if any(text is not None and type(text) is not str for text in texts):
        return ODD_VALUE
    headers = _headers(value.set_headers)
    removed = _names(value.remove_headers)
    if headers is None or removed is None or not _is_body(value.body):
        return ODD_VALUE
    target = None
    if value.path is not None or value.query is not None:
        path = request.path if value.path is None else value.path
        query = request.query if value.query is None else value.query
        if "?" in path:
            return ODD_VALUE
        target = f"{path}?{query}" if query else path
    return AllowByHandler(value.method, target, headers, removed, value.body)


def _answer(value: Answer) -> HandlerVerdict:
    headers = _headers(value.headers)
    body = value.body.encode("utf-8", "replace") if type(value.body) is str else value.body
    # `True` is an int to Python and no status to anybody.
    if type(value.status) is not int or headers is None or not _is_body(body) or not isinstance(body, bytes):
        return ODD_VALUE
    return AnswerByHandler(value.status, headers, body)


def _headers(written: object) -> Headers | None:
    if not isinstance(written, Mapping) or len(written) > MAX_HEADERS:
        return None
    found: list[tuple[str, str]] = []
    for name, value in written.items():
        if type(name) is not str or type(value) is not str:
            return None
        found.append((name.lower(), value))
    return tuple(found) if sum(len(name) + len(value) for name, value in found) <= MAX_HEADER_CHARS else None


def _names(written: object) -> frozenset[str] | None:
    # A text is iterable, too, and would name its letters.
    if isinstance(written, str) or not isinstance(written, Iterable):
        return None
    names = [name for _, name in zip(range(MAX_HEADERS), written, strict=False)]
    return frozenset(name.lower() for name in names) if all(type(name) is str for name in names) else None


def _is_body(body: object) -> bool:
    return body is None or (type(body) is bytes and len(body) <= MAX_ANSWER_BYTES)


def _params(text: str) -> Mapping[str, object]:
    if text == "{}":
        return {}
    # Read anew for each call: what one call changes in them must not reach another.
    value: dict[str, object] = json.loads(text)
    return value


_PLAIN_ALLOW: Final = Allow()
_ALLOWED: Final = AllowByHandler()
