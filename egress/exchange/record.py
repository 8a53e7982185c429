"""What remains of an exchange: one record, written once, for people who review.

Names and numbers only. No query string, no body, no header value, no secret.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from egress.credentials import CanaryScan, CanarySighting
from egress.errors import CODES
from egress.exchange.messages import Destination
from egress.rules.decide.paths import MAX_PATH_BYTES
from egress.types import Identity, Place, RuleRef, Slot, Verdict, value_class

_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}+")


@value_class
class ExchangeRecord:
    """One exchange as the audit knows it; the sink adds time, sequence and connection facts."""

    identity: Identity
    destination: Destination
    method: str
    """Empty where the request had none that is one."""
    path: str
    """The canonical path, or of a request that got none the raw one: any bytes, for the sink to escape."""
    verdict: Verdict
    """`allow` only where the request was handed out to be sent; `code` says if it came to that."""
    code: str
    """Why it was allowed or denied; or why it was cut after it had been allowed."""
    rule: RuleRef | None
    place: Place | None
    observed: bool
    status: int
    """What the sandbox was answered with; 0 when it left before there was an answer."""
    injected: tuple[tuple[str, Slot], ...]
    replaced: bool
    """A value of the sandbox's own was taken out of a slot."""
    scrubbed: tuple[tuple[str, int], ...]
    """How often each secret was found in the response."""
    bytes_up: int
    bytes_down: int
    policy: str
    """The digest of the policy that decided."""


@dataclass(slots=True)
class RecordBuilder:
    """What is noted while an exchange runs."""

    code: str = ""
    status: int = 0
    rule: RuleRef | None = None
    """What ended it, where that was none of the rules that decide: a canary."""
    is_sent: bool = False
    injected: tuple[tuple[str, Slot], ...] = ()
    replaced: bool = False
    found: Counter[str] = field(default_factory=Counter)
    up: int = 0
    down: int = 0

    def note_canary(self, seen: CanarySighting) -> str:
        """Note which canary ended it, and return the code."""
        self.rule = seen.rule
        return seen.code

    def close(self, code: str) -> None:
        """Note why it ended. The first reason stays: what follows from it explains nothing."""
        self.code = self.code or code
        if not self.status and self.code in CODES:
            self.status = CODES[self.code].status


def shown_method(method: str, watch: CanaryScan | None = None) -> str:
    """The method, or nothing: an HTTP/2 client can write a whole URL there. No canary `watch` looks for."""
    if not _METHOD.fullmatch(method):
        return ""
    return method if watch is None else watch.masked(method)


def shown_path(target: str, watch: CanaryScan | None = None) -> str:
    """The path of a target: never what stands behind `?` or `#`, and no canary that `watch` looks for."""
    path = target.partition("?")[0].partition("#")[0]
    return (path if watch is None else watch.masked(path))[:MAX_PATH_BYTES]
