"""Inputs, stages and results of an exchange, and its record: plain values, the same for every protocol.

The record is written once, for people who review. It holds names and numbers only: no body, no header value,
no secret, and of a query the names of its keys and the values that a rule keeps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from egress.credentials import CanarySighting
from egress.errors import CODES, NOT_STOPPED_CODES
from egress.exchange.content_coding import ContentCoding
from egress.exchange.handler_call import HandlerCall
from egress.exchange.recorded_query import QueryRecord
from egress.inspect.inspector import RefusalAnswer
from egress.types import Decision, Head, Headers, Identity, Place, RuleRef, Scheme, Slot, Verdict, value_class


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of the connection: canonical, parsed once by the ingress."""

    scheme: Scheme
    host: str
    port: int
    authority: str = field(init=False, repr=False, compare=False)
    """The Host field that names this destination; made once, since every request needs it."""

    def __post_init__(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        authority = host if self.port == self.default_port else f"{host}:{self.port}"
        object.__setattr__(self, "authority", authority)

    @property
    def default_port(self) -> int:
        """The port that a URL of this scheme need not name."""
        return 443 if self.scheme == "https" else 80


@value_class
class Request:
    """A request head as it came from the sandbox, whatever the protocol."""

    method: str
    """The method of the request; GET for every WebSocket, also for an extended CONNECT of HTTP/2."""
    target: str
    """Origin form or `*`; an absolute form is split into `scheme`, `authority` and this by the lane."""
    headers: Headers
    authority: str = ""
    """The authority that the request names beside Host: `:authority`, or that of an absolute form."""
    upgrade: tuple[str, ...] = ()
    """The protocols asked for, lower case; `websocket` also for an extended CONNECT of HTTP/2."""
    scheme: str = ""
    """The scheme that the request names: `:scheme`, or that of an absolute form."""


@value_class
class Response:
    """A response head as it came from the upstream."""

    status: int
    """101 for the switch to a WebSocket in every protocol."""
    reason: str
    headers: Headers
    has_body: bool = True
    """False where nothing can follow: HEAD, 204, 304, a length of 0. Any `data` then is a fault."""


# Steps: the answers of an exchange that say how a lane goes on --------------------------------


@value_class
class DenyRequest:
    """Answer the sandbox with the constant page of this code; send nothing upstream."""

    code: str
    retry_after: int = 0
    reason: str = ""
    """The reason that the deny rule states, if it states one."""
    answer: RefusalAnswer | None = None
    """The denial in the language of the body, in place of the page."""


@value_class
class HoldBody:
    """Keep what comes of the body and call `inspect` with it; send nothing upstream, and fetch no secret."""


@value_class
class CallHandler:
    """Call this handler and go on with `handled`; send nothing upstream, and fetch no secret."""

    call: HandlerCall


@value_class
class AnswerRequest:
    """Answer the sandbox with this response of a handler, as it comes out of `respond`, `data` and `end`."""

    response: Response
    body: bytes


@value_class
class NeedSecrets:
    """Get the values of these secrets and call `provide`."""

    names: tuple[str, ...]
    unscrubbed: bool = False
    """By `scrub: off` nothing is searched for them, so even a value too short for that will do."""


@value_class
class SendRequest:
    """Send this head upstream. It may carry credentials: it shows nothing of itself."""

    head: Head = field(repr=False)
    searches_body: bool = False
    """A planted value may be found in the body: the head waits for the first part of it."""
    body: bytes | None = field(default=None, repr=False)
    """The whole body, written anew by the rules or by a handler, in place of the one that came."""


@value_class
class AnswerHead:
    """Pass this response head on to the sandbox."""

    status: int
    reason: str
    headers: Headers
    coding: ContentCoding | None = None
    """The coding that is removed from the body on its way."""
    is_read: bool = False
    """A reader may change the body on its way."""
    is_held: bool = False
    """The head waits until the body is read: the exchange may still refuse it."""

    @property
    def is_rewritten(self) -> bool:
        """The body goes on as other bytes, so the length and framing that it came with do not hold."""
        return self.is_read or self.coding is not None


@value_class
class CutExchange:
    """Stop here. Before a response head went out, answer with the page of the code; after, just end."""

    code: str


NO_FACTS: Final[Mapping[str, str | int | bool]] = {}


TRACE_PARENT_FIELD: Final = "traceparent"
# Hexadecimal digits in lower case only, as the standard has them. An id of zeros is none.
_TRACE_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


@value_class
class TraceParent:
    """The span of the sandbox that a request came from, as its `traceparent` says (W3C Trace Context 00).

    The fields `traceparent` and `tracestate` travel on unchanged: the upstream is not ours, and learns of no
    span of ours. Only the two ids are read, so nothing else that a sandbox writes there gets into a record.
    """

    trace_id: int
    """16 bytes, not zero."""
    span_id: int
    """8 bytes, not zero."""


def read_trace_parent(headers: Headers) -> TraceParent | None:
    """Return the trace of a request; None without a field that names one, or with several fields.

    What is not exactly as the standard writes it is no trace.
    """
    found = [value for name, value in headers if name == TRACE_PARENT_FIELD]
    match = _TRACE_PARENT.fullmatch(found[0]) if len(found) == 1 else None
    return None if match is None else TraceParent(int(match[1], 16), int(match[2], 16))


@value_class
class ExchangeRecord:
    """An exchange as the audit knows it; the sink adds time, sequence and connection facts."""

    identity: Identity
    destination: Destination
    method: str
    """Empty where the request had none that is one."""
    path: str
    """The canonical path, or of a request that got none the raw one: any bytes, for the sink to escape."""
    verdict: Verdict
    code: str
    """Why it was allowed or denied; or why it ended early."""
    rule: RuleRef | None
    place: Place | None
    observed: bool
    status: int
    """The status sent to the sandbox; 0 if it left before."""
    injected: tuple[tuple[str, Slot], ...]
    replaced: bool
    """A value of the sandbox's own was taken out of a slot."""
    scrubbed: tuple[tuple[str, int], ...]
    """How often each secret was found in the response."""
    bytes_up: int
    bytes_down: int
    policy: str
    """The digest of the policy that decided."""
    query: QueryRecord = ()
    """The keys of the query, with the values that a rule keeps."""
    facts: Mapping[str, str | int | bool] = field(default_factory=lambda: NO_FACTS)
    """Findings for the log: a short text, a number or a boolean by name. Never a secret, a query, a body or a
    header value."""
    trace: TraceParent | None = None
    """The trace that the sandbox says the request belongs to."""


class ExchangeStage(Enum):
    """The stage that an exchange has reached."""

    HEAD = "head"
    HELD = "held"
    HANDLER = "handler"
    SECRETS = "secrets"
    SENT = "sent"
    BODY = "body"
    FRAMES = "frames"
    DONE = "done"
    BROKEN = "broken"


@dataclass(slots=True)
class RecordBuilder:
    """Facts for the record, noted while an exchange runs."""

    code: str = ""
    status: int = 0
    rule: RuleRef | None = None
    """The canary that ended the exchange; None if a rule decided."""
    is_handed_out: bool = False
    """The lane was given the head to send."""
    injected: tuple[tuple[str, Slot], ...] = ()
    replaced: bool = False
    stripped: tuple[Slot, ...] = ()
    """The slots that the rules emptied, where the sandbox had sent a value."""
    chosen_profile: str = ""
    """The profile that was chosen for the sandbox; empty where its own decided."""
    lifted: RuleRef | None = None
    """The deny that the file lifts, and that would have denied the request."""
    handler: str = ""
    """The handler that was called."""
    handler_verdict: str = ""
    """What it said; empty while it runs."""
    handler_ms: int = 0
    found: Counter[str] = field(default_factory=Counter)
    up: int = 0
    down: int = 0

    def note_canary(self, seen: CanarySighting) -> str:
        """Note which canary ended it, and return the code."""
        self.rule = seen.rule
        return seen.code

    def verdict(self, decision: Decision | None, *, sent: bool) -> Verdict:
        """Judge how the exchange ended. An end is an act of Egress unless it is listed as another's.

        `sent` says whether the head went out.
        """
        is_allowed = decision is not None and decision.allowed
        if is_allowed and (not self.code or self.code in NOT_STOPPED_CODES):
            return Verdict.ALLOW
        return Verdict.CUT if sent and self.is_handed_out else Verdict.DENY

    def facts(self, *, sent: bool, is_end_proven: bool) -> Mapping[str, str | int | bool]:
        """Return the findings for the log; `sent` says whether the head went out."""
        facts: dict[str, str | int | bool] = {}
        if self.chosen_profile:
            facts["chosen_profile"] = self.chosen_profile
        if self.handler:
            facts["handler"] = self.handler
            facts["handler_verdict"] = self.handler_verdict or "none"
            facts["handler_ms"] = self.handler_ms
        if not sent or (is_end_proven and not self.stripped and self.lifted is None):
            return facts or NO_FACTS
        if self.stripped:
            # Names of slots come from the rules; the values that stood there are gone.
            facts["stripped"] = ", ".join(str(slot) for slot in self.stripped)
        if self.lifted is not None:
            facts["lifted"] = str(self.lifted)
        if not is_end_proven:
            facts["close_notify"] = "missing"
        return facts

    def close(self, code: str) -> None:
        """Note why the exchange ended. The first reason stays: later ones are its consequences."""
        self.code = self.code or code
        if not self.status and self.code in CODES:
            self.status = CODES[self.code].status
