"""The facts of a log line about a request, tunnel or refusal that rules depend on.

Log lines are untrusted input: a line with a missing, mistyped or out-of-range field is skipped and never
raises. This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from egress.address_check import classify_address
from egress.audit.fields import CUT_MARK
from egress.errors import CODES, UNREACHED_CODES
from egress.inspect.inspector import FactValue
from egress.inspect.kinds import KINDS
from egress.review.entry import verdict_of
from egress.types import Scheme, Verdict

ObservationKind = Literal["request", "tunnel", "refusal"]
_KINDS: dict[str, ObservationKind] = {"exchange": "request", "tunnel": "tunnel", "refusal": "refusal"}
_CLEAR = frozenset({"absolute", "host"})
"""Values of `entry` that only clear-text requests have. The line of a refusal has no scheme."""

_LOG_ALONE = frozenset({"rule.allowed", "host.allowed", "observed", "client.left", "lane.ended"})
"""Codes that appear in the log and in no response."""
_RULES = (
    *("host.", "profile.", "rule.", "method.", "path.", "graphql.", "llm."),
    *("mcp.tool", "mcp.arguments", "mcp.resource", "mcp.prompt", "mcp.method"),
)
_ALSO_RULES = frozenset({"secret.expired", "secret.unbound"})
_CANARIES = frozenset({"canary.seen", "canary.stopped"})


@dataclass(frozen=True, slots=True)
class Observation:
    """A request and its verdict. Lines with equal observations are counted together."""

    kind: ObservationKind
    profile: str | None
    scheme: Scheme
    host: str
    port: int
    """0 for a DNS query."""
    method: str
    path: str
    """Path without query. If `is_cut`, only the logged beginning."""
    is_cut: bool
    verdict: Verdict
    code: str
    secrets: tuple[tuple[str, str], ...] = ()
    """Injected secrets, each with its slot."""
    is_websocket: bool = False
    is_http2: bool = False
    inside: str = ""
    """The dialled address, if not public."""
    body: tuple[tuple[str, FactValue], ...] = ()
    """The facts of its body, with their kind under `body`; none where no rule asked."""

    @property
    def passed(self) -> bool:
        """True if Egress stopped nothing of it, whether or not the upstream answered."""
        return self.verdict is Verdict.ALLOW

    @property
    def is_unreached(self) -> bool:
        """True if it passed, and the upstream was never reached: the host may not exist."""
        return self.passed and self.code in UNREACHED_CODES

    @property
    def is_canary(self) -> bool:
        """True if the request carried a canary, in its head or in its body."""
        return self.code in _CANARIES

    @property
    def is_denied_by_rules(self) -> bool:
        """True if the rules denied it, not a limit, an upstream or a handshake."""
        return self.verdict is Verdict.DENY and (self.code.startswith(_RULES) or self.code in _ALSO_RULES)


def observe(fields: Mapping[str, object]) -> Observation | None:
    """Read the fields of a line; None for other events and invalid lines."""
    kind = _KINDS.get(_text(fields, "event"))
    host, port = _text(fields, "host"), fields.get("port")
    verdict = verdict_of(fields)
    # `type() is int`, because `isinstance` would accept `true`. Only a refused DNS query has no port.
    if kind is None or not host or type(port) is not int or not 0 <= port <= 65535:
        return None
    if not verdict or not (port or kind == "refusal"):
        return None
    # A code that this version does not know becomes empty, so that no free text passes for a code.
    path, code = _text(fields, "path"), _text(fields, "code")
    return Observation(
        kind=kind,
        profile=_text(fields, "profile") or None,
        scheme=_scheme(fields, kind),
        host=host,
        port=port,
        method=_text(fields, "method"),
        path=path.removesuffix(CUT_MARK),
        is_cut=path.endswith(CUT_MARK),
        verdict=Verdict(verdict),
        code=code if code in CODES or code in _LOG_ALONE else "",
        secrets=_secrets(fields),
        is_websocket=_is_websocket(fields, code),
        is_http2=fields.get("alpn") == "h2",
        inside=_inside(_text(fields, "address")),
        body=_body(fields.get("facts")),
    )


def _body(facts: object) -> tuple[tuple[str, FactValue], ...]:
    """Return the facts about what a body says. Its size and digest differ from one to the next."""
    if not isinstance(facts, dict) or facts.get("body") not in KINDS:
        return ()
    kind = facts["body"]
    # A kind may be one of several below the same key.
    start = f"{kind.partition('.')[0]}_"
    found = {name: value for name, value in facts.items() if name.startswith(start)} | {"body": kind}
    return tuple(sorted((name, value) for name, value in found.items() if isinstance(value, str | int)))


def _is_websocket(fields: Mapping[str, object], code: str) -> bool:
    """True if the WebSocket upgrade succeeded or was denied. A refusal by the upstream does not show."""
    return (fields.get("status"), fields.get("method")) == (101, "GET") or code == "rule.websocket"


def id_of(fields: Mapping[str, object]) -> str:
    """Return the id of the request, or else of the connection."""
    return _text(fields, "request") or _text(fields, "connection")


def _text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _scheme(fields: Mapping[str, object], kind: ObservationKind) -> Scheme:
    if kind == "refusal":
        return "http" if _text(fields, "entry") in _CLEAR else "https"
    return "http" if _text(fields, "scheme") == "http" else "https"


def _secrets(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    found = fields.get("injected")
    items = found if isinstance(found, list) else []
    pairs = {
        (_text(item, "secret"), _text(item, "slot"))
        for item in items
        if isinstance(item, dict) and _text(item, "secret")
    }
    return tuple(sorted(pairs))


@lru_cache(4096)
def _inside(address: str) -> str:
    return address if address and not classify_address(address).allowed else ""
