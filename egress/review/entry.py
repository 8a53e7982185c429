"""Lines of the log as a reviewer sees them: fields, position, and bytes that are no line at all.

A line comes from a file that others may have touched. So nothing about its shape is taken for granted:
each field is asked for with the type that it must have, and what has another is as if it were not there.
Nothing here proves that a line is authentic: `egress.audit.verify` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from egress.audit.chain import MAX_LINE_BYTES
from egress.audit.fields import MAX_NUMBER, FactMap
from egress.audit.schema import LINE_KINDS
from egress.errors import CODES, FAILED_CODES, NOT_STOPPED_CODES, ContentError
from egress.review.timestamps import InvalidTimeError, read_moment
from egress.types import Verdict

OddKind = Literal["half", "huge", "foreign", "corrupt"]
ODD: Final[dict[OddKind, str]] = {
    "half": "the beginning of a line: a process was killed within a write",
    "huge": "a line that is too long to be one of ours",
    "foreign": "a line that no proxy wrote",
    "corrupt": "a line of the proxy that was damaged",
}

DEEPEST: Final = 16
"""Values within values; ours are nested three times."""


class NotALineError(ContentError):
    """These bytes are no line of a log. The message never quotes them."""

    code = "log.line"

    def __init__(self, kind: OddKind) -> None:
        super().__init__(f"this is {ODD[kind]}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of the log."""

    seq: int
    time: str
    """As it stands in the line."""
    moment: int
    """The same in UTC microseconds."""
    event: str
    fields: Mapping[str, object] = field(repr=False)
    raw: bytes = field(repr=False)
    """The line itself, without its end."""
    file: int = 0
    at: int = 0
    """Where it begins in that file."""

    def text(self, name: str) -> str:
        """A field as text; empty where it is none."""
        found = self.fields.get(name)
        return found if isinstance(found, str) else ""

    def number(self, name: str) -> int:
        """A field as a number; 0 where it is none."""
        return whole(self.fields.get(name))

    def flag(self, name: str) -> bool:
        """A field that is `true`."""
        return self.fields.get(name) is True

    @property
    def request(self) -> str:
        """The id of the request; empty where there was none."""
        return self.text("request")

    @property
    def verdict(self) -> str:
        """`allow`, `deny`, `cut`, or empty where nothing was decided."""
        return verdict_of(self.fields)

    @property
    def is_failed(self) -> bool:
        """The request was allowed, and its upstream failed."""
        return self.verdict == Verdict.ALLOW and self.text("code") in FAILED_CODES

    @property
    def reason(self) -> str:
        """The code of the reason; empty where the rule that decided says it already."""
        code = self.text("code")
        return "" if self.text("rule") and code in SAID_BY_RULES else code

    @property
    def body_item(self) -> str:
        """The part of the body that decided, such as the ref of a push; empty where no rule read the body."""
        facts = self.fields.get("facts")
        item = facts.get("body_item") if isinstance(facts, dict) else ""
        return item if isinstance(item, str) else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that were sent, or were to be sent."""
        return secrets_of(self.fields)

    @property
    def requests(self) -> int:
        """How many requests the line stands for."""
        return requests_of(self.fields)


SAID_BY_RULES: Final = frozenset({"rule.allowed", "rule.denied"})
"""An allow and a deny did what they are for. Whatever else is the reason, such as a secret that could not
be had, a rule fitted and did not decide."""


def parse(raw: bytes, file: int = 0, at: int = 0) -> LogEntry:
    """Read one line, given without its end. Raises `NotALineError`."""
    if len(raw) > MAX_LINE_BYTES:
        raise NotALineError("huge")
    # A start closes an unfinished line with `#`: no whole line ends in it.
    if raw.endswith(b"#"):
        raise NotALineError("half")
    # The first bytes tell damage of our own line from a line that somebody else put there.
    kind: OddKind = "corrupt" if raw.startswith(b'{"seq":') else "foreign"
    try:
        found = _decoded(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NotALineError(kind) from None
    # Depth is checked before any field is read: code that walks the values recurses into them.
    if not isinstance(found, dict) or _is_deep(raw, found) or not _has_good_facts(found):
        raise NotALineError(kind)
    seq, time, event = found.get("seq"), found.get("time"), found.get("event")
    # A line without a MAC is not one of ours, whatever its fields say.
    if not is_whole(seq) or not isinstance(time, str) or not isinstance(event, str) or "mac" not in found:
        raise NotALineError(kind)
    try:
        return LogEntry(whole(seq), time, read_moment(time), event, found, raw, file, at)
    except InvalidTimeError:
        raise NotALineError(kind) from None


def _decoded(raw: bytes) -> object:
    """Any JSON value. Raises `MsgspecError`, `ValueError` and `RecursionError`."""
    try:
        return _DECODE(raw)
    except msgspec.DecodeError:
        # A lone surrogate is no text for msgspec; the writer escapes those that a sandbox sent.
        if b"\\u" not in raw:
            raise
    return json.loads(raw)


_DECODE: Final = msgspec.json.Decoder().decode


def _has_good_facts(found: dict[str, object]) -> bool:
    """Check the facts of a line against their bounds; a line without facts passes."""
    # Facts of a later version's events are not known here, and are shown as they are.
    if "facts" not in found or found.get("event") not in LINE_KINDS:
        return True
    try:
        msgspec.convert(found["facts"], FactMap)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def _is_deep(raw: bytes, found: object) -> bool:
    """True if values are nested deeper than in any line of ours: readers of the values recurse into them."""
    # Few brackets cannot nest deeply, so nearly every line is done after two counts.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    level = [found]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
    return bool(level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


# Fields, whatever they turn out to be -----------------------------------------------------------


def is_whole(value: object) -> bool:
    """True if a value is a number that a line can have: not negative, and within the schema's bound."""
    # A boolean is an integer in Python, and `true` must not be counted as 1.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER


def whole(value: object) -> int:
    """The value when it is such a number; 0 otherwise."""
    return value if isinstance(value, int) and is_whole(value) else 0


VERDICTS: Final = tuple(verdict.value for verdict in Verdict)


def verdict_of(fields: Mapping[str, object]) -> str:
    """The verdict of a line. A line that counts requests has none of its own: its code says it.

    Version 0.1.0 wrote `allow` where Egress had stopped a request after its decision. Such a line is read as
    this version would have written it; the line itself stays as it is.
    """
    found = fields.get("verdict")
    if found == Verdict.ALLOW and is_stopped(fields.get("code")):
        # An address stood in the line only where the upstream had been dialled.
        return Verdict.CUT.value if fields.get("address") else Verdict.DENY.value
    if found in VERDICTS:
        return str(found)
    if fields.get("event") != "folded":
        return ""
    return Verdict.ALLOW.value if fields.get("code") == "client.left" else Verdict.DENY.value


def is_stopped(code: object) -> bool:
    """Say whether Egress ends a request for this reason. An unlisted code of a later version is none."""
    return isinstance(code, str) and code in _STOPPED_CODES


_STOPPED_CODES: Final = (CODES.keys() | {"lane.ended"}) - NOT_STOPPED_CODES


def requests_of(fields: Mapping[str, object]) -> int:
    """How many requests, connections or names a line stands for."""
    match fields.get("event"):
        case "exchange" | "tunnel" | "refusal" | "lost":
            return 1
        case "folded":
            return whole(fields.get("count"))
        case _:
            return 0


def secrets_of(fields: Mapping[str, object]) -> tuple[str, ...]:
    """The names of secrets in a line, each once, in order."""
    found: list[str] = []
    for name in ("injected", "secrets"):
        values = fields.get(name)
        for value in values if isinstance(values, list) else ():
            secret = value.get("secret") if isinstance(value, dict) else value
            if isinstance(secret, str):
                found.append(secret)
    # Each once: a secret sent in two slots of one request is still one request with that secret.
    return tuple(dict.fromkeys(found))


def texts_of(value: object) -> list[str]:
    """Every text and number in a value, however deep: what a search looks through."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in (*value, *value.values()) for text in texts_of(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts_of(inner)]
    return []
