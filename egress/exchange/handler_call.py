"""What a handler is asked, and what it may say: plain values. Pure.

A handler sees the request as the sandbox sent it, without the fields that carry credentials: no secret has
been fetched by then. It says no destination: what it changes is a part of the same request to the same host,
and is judged again by the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from egress.errors import WireError
from egress.exchange.recorded_query import SecretCheck
from egress.http1.fields import HOP_BY_HOP_FIELDS, LOOKALIKE_FIELDS, CheckedFields
from egress.inspect.inspector import FactValue
from egress.types import HandlerUse, Head, Headers, Identity, Injection, Slot, value_class

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the body of an answer, or of a request, that a handler writes."""
MAX_REASON_CHARS: Final = 200
"""Characters of the reason of a handler's denial, which the sandbox reads."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
_CREDENTIAL_FIELDS: Final = frozenset(
    {
        *("authorization", "cookie", "cookie2", "x-api-key", "api-key", "x-auth-token", "x-goog-api-key"),
        *("x-amz-security-token", "private-token", "job-token", "x-github-token", "x-access-token"),
    }
)
_FRAMING_FIELDS: Final = (
    HOP_BY_HOP_FIELDS
    | LOOKALIKE_FIELDS
    | {"host", "content-length", "transfer-encoding", "trailer", "expect", "upgrade", "te"}
)
_CODING_FIELDS: Final = frozenset({"content-encoding"})
BODILESS_STATUSES: Final = frozenset({204, 205, 304})


@value_class
class HandlerCall:
    """One call of a handler."""

    use: HandlerUse
    identity: Identity
    head: Head
    """With the canonical target, and without credentials."""
    rule: str
    """The rule that allows the request, such as `api.example.com#read`; empty in observe mode."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the request would be sent with."""
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    """What the body says, where rules ask for it."""
    reads_body: bool = False
    """The call comes with the whole body."""


@value_class
class AllowByHandler:
    """Go on, with these changes."""

    method: str | None = None
    target: str | None = None
    set_headers: Headers = ()
    """Fields that take the place of all those of their names; names in lower case."""
    removed: frozenset[str] = frozenset()
    body: bytes | None = None

    @property
    def is_change(self) -> bool:
        """Something of the request is to be another."""
        return self != _UNCHANGED


_UNCHANGED: Final = AllowByHandler()


@value_class
class AnswerByHandler:
    """Send nothing; this is the answer."""

    status: int
    headers: Headers
    body: bytes


@value_class
class DenyByHandler:
    """Send nothing, for this reason, which the sandbox reads."""

    reason: str = ""


@value_class
class HandlerFault:
    """The handler has said nothing that counts: it raised, took too long, or returned another value."""

    kind: str
    """`raised`, `timeout`, `value`, `busy` or `lost`: for the log."""


HandlerVerdict = AllowByHandler | AnswerByHandler | DenyByHandler | HandlerFault


def credential_fields(needs: tuple[Injection, ...], strips: tuple[Slot, ...]) -> frozenset[str]:
    """Return the names of the fields that a handler neither sees nor writes, for these injections."""
    slots = [slot for need in needs for slot in need.slots]
    return _CREDENTIAL_FIELDS.union(slot.name for slot in (*slots, *strips) if slot.kind == "header")


def shown_head(head: Head, hidden: frozenset[str]) -> Head:
    """Return the head as a handler sees it."""
    headers = tuple([each for each in head.headers if not _is_hidden(each[0], hidden)])
    return Head(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)


def changed_head(head: Head, change: AllowByHandler, hidden: frozenset[str]) -> Head | None:
    """Return the head with the changes; None for a change that no handler may make."""
    named = {name for name, _ in change.set_headers} | change.removed
    if any(not _may_write(name, hidden) for name in named):
        return None
    # A WebSocket is one GET; its handshake is not rewritten.
    if head.websocket and (change.method is not None or change.body is not None):
        return None
    # The client reads the response by the method that it sent: only one to HEAD has no body.
    if change.method is not None and "HEAD" in {change.method, head.method}:
        return None
    headers = tuple([each for each in head.headers if each[0] not in named]) + change.set_headers
    try:
        CheckedFields(headers)
    except WireError:
        return None
    target = head.target if change.target is None else change.target
    if not _is_target(target):
        return None
    method = head.method if change.method is None else change.method
    return Head(method, head.scheme, head.host, head.port, target, headers, head.websocket)


def is_sound_answer(answer: AnswerByHandler) -> bool:
    """Tell whether a response may stand as it is: nothing in it frames, codes or switches."""
    names = [name for name, _ in answer.headers]
    if not 200 <= answer.status < 600 or (answer.body and answer.status in BODILESS_STATUSES):
        return False
    if any(not _TOKEN.fullmatch(name) or name in _FRAMING_FIELDS | _CODING_FIELDS for name in names):
        return False
    try:
        CheckedFields(answer.headers)
    except WireError:
        return False
    return len(answer.body) <= MAX_ANSWER_BYTES


def holds_secret_text(check: SecretCheck, *texts: str | bytes | None) -> bool:
    """Tell whether any of these texts holds the value of a secret, or a canary."""
    return any(
        check.holds(text if isinstance(text, str) else text.decode("latin-1")) for text in texts if text
    )


def reason_of_denial(text: str) -> str:
    """Return a reason as the sandbox may read it: one line of printable text, cut."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_REASON_CHARS]).strip()


def _is_hidden(name: str, hidden: frozenset[str]) -> bool:
    return name in hidden or name.startswith("proxy-")


def _may_write(name: str, hidden: frozenset[str]) -> bool:
    return (
        _TOKEN.fullmatch(name) is not None
        and name not in _FRAMING_FIELDS
        and not _is_hidden(name, hidden)
        and not name.startswith(("egress-", "sec-websocket-"))
    )


def _is_target(target: str) -> bool:
    # Of the rest the rules judge, as of any target that a sandbox sends.
    return target == "*" or (
        target.startswith("/") and target.isascii() and target.isprintable() and " " not in target
    )
