"""The types that a handler is written with: its request and context, and what it may return.

Imports nothing heavy: every process that runs handlers loads it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, overload

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a request body that a handler may ask for."""
MAX_DEADLINE: Final = 60.0
DEFAULT_DEADLINE: Final = 5.0
"""Seconds until a handler that has not answered denies."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the sandbox sent it, without the fields that carry credentials.

    Text is as it stands on the wire, a character for each byte (latin-1).
    """

    method: str
    scheme: str
    host: str
    """The host that the connection leads to. No handler can change it."""
    port: int
    path: str
    """The canonical path, as the rules have matched it."""
    query: str
    """Without the question mark."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """Names in lower case."""
    body: bytes | None = field(default=None, repr=False)
    """The whole body, where the handler asks for it; else None."""
    is_websocket: bool = False

    @property
    def url(self) -> str:
        """The full URL."""
        is_usual = self.port == (443 if self.scheme == "https" else 80)
        port = "" if is_usual else f":{self.port}"
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.host}{port}{self.path}{query}"

    def header(self, name: str) -> str | None:
        """Return the first value of a header, in any spelling of its name; None if it is not there."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each == wanted), None)

    def json(self) -> object:
        """Return the body as JSON; raises `ValueError` for one that is none, or was not asked for."""
        if self.body is None:
            raise ValueError("the handler does not ask for the body")
        value: object = json.loads(self.body)
        return value


@dataclass(frozen=True, slots=True)
class Context:
    """What is known around a request."""

    sandbox: str
    profile: str | None
    handler: str
    """The name that this handler is called by."""
    params: Mapping[str, object]
    """The parameters of the handler: those of `with:`, or of the owner's choice."""
    rule: str
    """The rule that allows the request, such as `api.example.com#read`; empty in observe mode."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the rules would add. Never a value."""
    facts: Mapping[str, str | int | bool] = field(default_factory=dict)
    """What the body says, where rules ask for it, such as `graphql_query`."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The sandbox's values for parameters of the rules."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the request go on, changed or not. The rules decide again about what is changed.

    Credentials and the host cannot be changed.
    """

    method: str | None = None
    path: str | None = None
    """Without a query."""
    query: str | None = None
    set_headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that take the place of all those of the same name."""
    remove_headers: Iterable[str] = ()
    body: bytes | None = None
    """Only for a handler that asks for the body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the sandbox at once; nothing is sent to the host."""

    status: int = 200
    body: bytes | str = b""
    """Text is sent in UTF-8."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: object, status: int = 200) -> Answer:
        """Answer with JSON."""
        return cls(status, json.dumps(value), {"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse the request. The sandbox reads the reason: one line, up to 200 characters."""

    reason: str = ""


Result = Allow | Answer | Deny
Handler = Callable[[Request, Context], Result | Awaitable[Result]]
"""A function, or a coroutine function: only the latter can run in the process of the proxy."""

_TERMS_NAME: Final = "__egress_handler__"


@dataclass(frozen=True, slots=True)
class HandlerTerms:
    """What a handler asks for."""

    body: int = 0
    deadline: float = DEFAULT_DEADLINE


@overload
def handler[F: Handler](function: F, /) -> F: ...
@overload
def handler[F: Handler](*, body: int = 0, deadline: float = DEFAULT_DEADLINE) -> Callable[[F], F]: ...
def handler[F: Handler](
    function: F | None = None, /, *, body: int = 0, deadline: float = DEFAULT_DEADLINE
) -> F | Callable[[F], F]:
    """Make a function of a module a handler, called by its own name.

    Args:
        body: bytes of the request body that it reads; the request waits for all of it, and a longer one is
            refused. 0 for none.
        deadline: seconds until it counts as failed.

    Raises `ValueError` for a number out of range.
    """
    if not 0 <= body <= MAX_BODY_BYTES:
        raise ValueError(f"body must be from 0 to {MAX_BODY_BYTES} bytes")
    if not 0 < deadline <= MAX_DEADLINE:
        raise ValueError(f"deadline must be above 0 and at most {MAX_DEADLINE:g} seconds")

    def mark(marked: F) -> F:
        setattr(marked, _TERMS_NAME, HandlerTerms(body, deadline))
        return marked

    return mark if function is None else mark(function)


def terms_of(function: object) -> HandlerTerms | None:
    """Return what a handler asks for; None for a function that was not marked as one."""
    terms = getattr(function, _TERMS_NAME, None)
    return terms if isinstance(terms, HandlerTerms) else None
