"""Frozen value types shared by all parts of Egress.

Types here decide, read and write nothing. A type belongs here if two packages that must not import each other
both need it: `rules` produces a `Decision`, `credentials` uses its `needs`, `exchange` carries both.

Text from the wire is `str` decoded as latin-1, so one character is one byte and nothing is lost. Header names
are lower case everywhere inside Egress; the codecs ensure it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Literal, Never, dataclass_transform

Headers = tuple[tuple[str, str], ...]
Scheme = Literal["https", "http"]
Parameters = tuple[tuple[str, str], ...]
"""Values for parameters of the rules, by name."""


def parameters_of(values: Mapping[str, str]) -> Parameters:
    """Return values in the order in which they are kept."""
    return tuple(sorted(values.items()))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class[T](cls: type[T]) -> type[T]:
    """Make a dataclass that type checkers treat as frozen.

    For values that are made for every request: a dataclass that is frozen at run time, too, takes four times
    as long to make. All others are `@dataclass(frozen=True, slots=True)`.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


# Positions in rule files ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a rule file; lines and columns count from one."""

    file: str
    line: int
    column: int
    via: str = ""
    """The line of the preset that the `use:` item at this position expands to."""

    def __str__(self) -> str:
        spot = f"{self.file}:{self.line}:{self.column}"
        return f"{spot} ({self.via})" if self.via else spot


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"
    """A risk that the author of the file took on purpose: said each time, and nothing to mend."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, or a doubt, in a rule file."""

    place: Place
    severity: Severity
    message: str
    hint: str = ""
    is_idle: bool = False
    """The rule at this place can never have an effect."""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


# Requests and their origin -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Workload:
    """The pod behind a connection, as the cluster names it; empty texts for what is not known."""

    namespace: str
    pod: str = ""
    pod_uid: str = ""
    claim: str = ""
    claim_uid: str = ""
    replica: str = ""
    """The pod of the proxy."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The sandbox behind a connection, as the network identifies it. Never taken from a header."""

    sandbox: str
    profile: str | None = None
    parameters: Parameters = ()
    """Its values for parameters of the rules, in any order; each name once."""
    # Rights are those of the sandbox, whichever of its pods asks; a pod is only named in records.
    workload: Workload | None = field(default=None, compare=False)
    """Only in a cluster."""
    ticket: str = ""
    """The id of the ticket that its client has shown, with whose rights it comes; empty without one."""


@value_class
class Head:
    """A request head whose destination is already fixed.

    `host` and `port` are the canonical destination that the ingress parsed once from CONNECT or SNI; the Host
    header stays among `headers` and is only ever compared with them.
    """

    method: str
    scheme: Scheme
    host: str
    port: int
    target: str
    """Origin form, path and query as received, or `*`."""
    headers: Headers = ()
    websocket: bool = False
    """The request opens a WebSocket (RFC 6455 upgrade or RFC 8441 extended CONNECT)."""


# Secrets --------------------------------------------------------------------------------------


class Secret:
    """A secret value that does not show itself.

    `repr`, `str`, `format` and tracebacks name the secret, never the value; pickling and copying are refused.
    Only `reveal()` returns the bytes, and a test keeps the list of files that may call it.
    """

    # Slots, so that `vars` and generic dumps of attributes cannot show the value.
    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: bytes) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> bytes:
        """Return the secret bytes."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} must not be pickled or copied")


# Injections ----------------------------------------------------------------------------------


class OnExisting(StrEnum):
    """Treatment of a value that the sandbox itself put into the slot."""

    REPLACE = "replace"
    FAIL = "fail"


SlotKind = Literal["header", "query", "cookie", "path", "basic"]


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A position in a request head that can carry a credential, such as `header:authorization`."""

    kind: SlotKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


@lru_cache(maxsize=1024)
def _single_slot(kind: SlotKind, name: str) -> tuple[Slot, ...]:
    """Return the single slot of an injection. Cached: asked for every request, bounded by the rules."""
    return (Slot(kind, name),)


@dataclass(frozen=True, slots=True)
class InjectHeader:
    """Write `prefix + secret + suffix` as the only value of a header (also for `bearer:`)."""

    secret: str
    name: str
    prefix: str = ""
    suffix: str = ""
    on_existing: OnExisting = OnExisting.REPLACE

    @property
    def slots(self) -> tuple[Slot, ...]:
        return _single_slot("header", self.name)


@dataclass(frozen=True, slots=True)
class InjectBasic:
    """Write `Authorization: Basic base64(user:secret)`."""

    secret: str
    user: str
    on_existing: OnExisting = OnExisting.REPLACE

    @property
    def slots(self) -> tuple[Slot, ...]:
        # Basic credentials share the slot of a bearer token: both are the Authorization header.
        return _single_slot("header", "authorization")


@dataclass(frozen=True, slots=True)
class InjectQuery:
    """Write the secret as the only value of a query parameter."""

    secret: str
    name: str
    on_existing: OnExisting = OnExisting.REPLACE

    @property
    def slots(self) -> tuple[Slot, ...]:
        return _single_slot("query", self.name)


@dataclass(frozen=True, slots=True)
class InjectCookie:
    """Write the secret as the only value of a cookie."""

    secret: str
    name: str
    on_existing: OnExisting = OnExisting.REPLACE

    @property
    def slots(self) -> tuple[Slot, ...]:
        return _single_slot("cookie", self.name)


Shape = Literal["github", "openai", "anthropic", "aws", "uuid", "hex32"]


@dataclass(frozen=True, slots=True)
class InjectPlaceholder:
    """Swap a placeholder of this sandbox for the secret: only in `slots`, at most `max` times."""

    secret: str
    like: Shape
    slots: tuple[Slot, ...]
    max: int = 1


Injection = InjectHeader | InjectBasic | InjectQuery | InjectCookie | InjectPlaceholder


# Limits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` requests per `seconds`, of which `burst` may come at once."""

    count: int
    seconds: int
    burst: int


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits written at one place of the rules; counted per sandbox and place."""

    place: Place
    requests: Rate | None = None
    connections: int | None = None
    request_body: int | None = None
    response_body: int | None = None


# Decisions ------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What Egress did with a request. A decision is `ALLOW` or `DENY`; only a record can be `CUT`."""

    ALLOW = "allow"
    """Egress stopped nothing of it. The upstream or the client may have failed: the code says so."""
    DENY = "deny"
    """Egress stopped it before anything of it had gone to the upstream."""
    CUT = "cut"
    """Egress stopped it later: a part of it had gone to the upstream."""


class Scrub(StrEnum):
    """Treatment of a secret that comes back in a response."""

    OFF = "off"
    MASK = "mask"
    BLOCK = "block"


class Redirects(StrEnum):
    """Redirects that a response may carry; `signed` is `pass` plus signed URLs."""

    SIGNED = "signed"
    PASS = "pass"
    SAME_HOST = "same-host"
    DENY = "deny"


class Cookies(StrEnum):
    PASS = "pass"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class RuleRef:
    """The rule that decided, as people write it: `api.github.com#read`."""

    key: str
    id: str
    place: Place
    reason: str = ""
    """Why a deny is there, in the words of its author; a sandbox that it stops may read it."""

    def __str__(self) -> str:
        return f"{self.key}#{self.id}"


@dataclass(frozen=True, slots=True)
class GrantRef(RuleRef):
    """The reference of a rule that was granted to one sandbox; its place is that of the delegation."""

    delegation: str = ""


@dataclass(frozen=True, slots=True)
class HandlerUse:
    """A handler that is called for a request, by its name, with its parameters."""

    name: str
    params: str = "{}"
    """A JSON object with sorted keys, so that values can be compared and hashed."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Needs and limits of an allowed request, over all the rules that allowed it."""

    needs: tuple[Injection, ...] = ()
    strips: tuple[Slot, ...] = ()
    """Slots that are emptied before a credential is written."""
    set_headers: Headers = ()
    """Constant headers, which take the place of those that the sandbox sent."""
    limits: tuple[Limit, ...] = ()
    scrub: Scrub = Scrub.MASK
    redirects: Redirects = Redirects.PASS
    cookies: Cookies = Cookies.PASS
    """Already resolved: the default is `drop` if a credential is injected, else `pass`."""
    misplaced_pass: bool = False
    """Placeholders outside their slots are forwarded unswapped instead of denied."""
    kept_query: frozenset[str] = frozenset()
    """Keys of the query whose values the record keeps."""
    handlers: tuple[HandlerUse, ...] = ()
    """The handlers that the rules name. An allowed request has one at most."""
    is_virtual: bool = False
    """The host has no upstream: only a handler can answer."""


NO_EFFECTS = Effects()


@value_class
class Decision:
    """The verdict on a request.

    `code` is the stable dotted reason (see `errors.CODES`). `target` is the canonical path and query: the
    text that was matched, and therefore the text that must be forwarded.
    """

    verdict: Verdict
    code: str
    target: str = ""
    rule: RuleRef | None = None
    entry: str | None = None
    place: Place | None = None
    effects: Effects = NO_EFFECTS
    observed: bool = False
    """Allowed only because `mode: observe` lifts the missing rule."""
    inspects: str = ""
    """The kind of body that has to be read before there is a verdict; until then the verdict is a denial."""
    body_kind: str = ""
    """The kind of body that the rules are about, so that a denial can be written in its language."""
    item: str = ""
    """The part of the body that decided, such as the root field that no rule allows; printable."""
    item_codes: tuple[str, ...] = ()
    """Of a body that the rules deny: a code for each part of it, empty for one not refused itself."""
    lifted: RuleRef | None = None
    """The deny of a preset that would have denied it, and that the file lifts by `without:`."""
    terms: object = None
    """What the rules say about the rest of the exchange, such as how its answer is read; None for nothing."""

    @property
    def allowed(self) -> bool:
        return self.verdict is Verdict.ALLOW


@dataclass(frozen=True, slots=True)
class HostDecision:
    """The verdict on a destination, before its name is resolved or dialled."""

    verdict: Verdict
    code: str
    entry: str | None = None
    place: Place | None = None
    rule: RuleRef | None = None
    intercept: bool = True
    http2: bool = False
    addresses: tuple[str, ...] = ()
    """Networks this name may resolve to although Egress refuses them by default."""
    limits: tuple[Limit, ...] = ()
    observed: bool = False

    @property
    def allowed(self) -> bool:
        return self.verdict is Verdict.ALLOW
