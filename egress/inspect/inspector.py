"""The interface of a kind of body: bytes in; facts, a refusal or the wish for more bytes out.

The exchange holds every byte that an inspector was given, and nothing is dialled meanwhile. An allowed
request is sent with these bytes exactly as they came, and the rest of the body follows unread. So an
inspector never returns a body, and a body that it has understood only in part is `Unreadable`.

A kind is total and bounded: any bytes, in pieces of any size, lead to an answer, and no piece costs more than
its length allows. Facts of a body do not depend on how it was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from egress.types import Head, Headers, value_class

MAX_FACT_CHARS = 128
"""Characters of a text in the log; a longer one is cut."""

FactValue = str | int | bool
"""A finding for the log."""


class More(Enum):
    """The answer of an inspector that cannot tell yet, or has nothing to add to its last facts."""

    MORE = "more"


MORE: Final = More.MORE


@value_class
class Facts:
    """The meaning of a request, as rules see it."""

    items: tuple[object, ...]
    """The parts that rules judge one by one, such as the root fields of a GraphQL document. An allow rule has
    to cover each of them, and a deny rule that fits any of them denies the request. Each kind has a type of
    item of its own; `str` of it is shown to people."""
    log: Mapping[str, FactValue] = field(default_factory=dict)
    """Findings for the log, by names that begin with the kind. Names and numbers, no values of arguments."""
    read: int = 0
    """Bytes at the beginning of the body from which the facts come. What follows may be anything."""
    can_improve: bool = False
    """More of the body may still change a denial: if the rules deny, the inspector is fed on."""
    context: object = None
    """What else the kind needs to answer a denial. Rules do not see it."""
    answers: AnswerSource | None = None
    """Makes the reader of the answer; None where the answer passes unread."""


@value_class
class Unreadable:
    """A body without facts: malformed, ambiguous or over a bound of its kind."""

    code: str
    """The code of the refusal, listed in `egress.errors.CODES`."""
    detail: str = ""
    """What is wrong, in a constant text: nothing of the body."""
    context: object = None
    """What the kind needs to answer a denial."""


Inspection = More | Facts | Unreadable


class AnswerError(ValueError):
    """An answer that must not pass. `code` is that of the refusal."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class AnswerReader(Protocol):
    """Reads the answer to a request whose body was judged, and may change it. It may not wait."""

    @property
    def changes_length(self) -> bool:
        """The body may come out with another length than it came in."""
        ...

    @property
    def holds_head(self) -> bool:
        """Nothing of the answer passes before its end, so that it can be refused as a whole."""
        ...

    @property
    def held(self) -> int:
        """Bytes that it keeps now."""
        ...

    def begin(self, status: int, headers: Headers, *, has_body: bool) -> bool:
        """Take the head; return whether the body is read. Raises `AnswerError`, as the next two do."""
        ...

    def feed(self, data: bytes) -> list[bytes]:
        """Take decoded bytes; return those that may go on."""
        ...

    def end(self) -> list[bytes]:
        """Take the end; return the bytes that were kept."""
        ...

    def log(self) -> Mapping[str, FactValue]:
        """Return the findings for the record."""
        ...


class AnswerSource(Protocol):
    """A judged request, as its answer needs it."""

    def answer_reader(self, terms: object) -> AnswerReader:
        """Return the reader of its answer, by the terms of the rules that allowed it."""
        ...


class FactPlace(Protocol):
    """The state of a sandbox that a kind needs beside the bytes, such as its sessions."""

    def placed(self, found: Facts | Unreadable) -> Facts | Unreadable:
        """Return what a body says with what is known from earlier ones."""
        ...


class Inspector(Protocol):
    """Reads one body. After `Facts` that cannot improve, or `Unreadable`, it is not called again."""

    def feed(self, data: bytes) -> Inspection:
        """Take the next bytes of the body."""
        ...

    def end(self) -> Facts | Unreadable:
        """Take the end of the body."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A denial for a client that speaks the language of the body."""

    code: str
    message: str
    """Why, for a person: the text of the code."""
    hint: str = ""
    """What to do instead."""
    rule: str = ""
    """The deny rule, such as `api.github.com#no-deletes`."""
    item: str = ""
    """The part of the request that no rule covers, cut and printable: the client's own text."""
    item_codes: tuple[str, ...] = ()
    """A code for each item of the facts, in their order; empty for an item that is not refused by itself."""
    retry_after: int = 0
    """Seconds after which it may be tried again; 0 where that does not help."""
    status: int = 403
    """The status of the code."""

    @property
    def sentence(self) -> str:
        """Why, and about which part of the request, in one line."""
        return " ".join(filter(None, (f"Egress: {self.message}", self.item and f"({self.item})")))


@dataclass(frozen=True, slots=True)
class RefusalAnswer:
    """A response that a client of this kind understands. The `Egress-*` fields are added to it."""

    status: int
    media_type: str
    body: bytes
    drain: int = 0
    """Bytes of the rest of the body that are read into nothing before the answer goes out: some clients take
    no answer before they have sent everything. A longer body is cut off."""
    headers: Headers = ()
    """Further fields."""


class BodyKind(Protocol):
    """A language of request bodies."""

    @property
    def name(self) -> str:
        """The key of its predicate in a rule."""
        ...

    @property
    def methods(self) -> frozenset[str]:
        """The methods of its requests; no other method fits a rule of this kind."""
        ...

    @property
    def max_held_bytes(self) -> int:
        """Bytes that are held of one body; more are refused."""
        ...

    @property
    def media_types(self) -> frozenset[str]:
        """The types of body that it reads, in lower case, without parameters."""
        ...

    @property
    def codings(self) -> frozenset[str]:
        """The content codings besides `identity` that it decodes itself."""
        ...

    def begin(self, head: Head) -> Inspector | Facts | Unreadable:
        """Look at a head whose target is canonical, and whose type, coding and method are of this kind.

        The answer is facts where the head has them all: nothing of the body is held then.
        """
        ...

    def answer(self, refusal: Refusal, found: Facts | Unreadable | None) -> RefusalAnswer:
        """Write a denial in the language of this kind; `found` is None where the body was not looked at."""
        ...

    def recall(self, log: Mapping[str, FactValue]) -> Facts | None:
        """Return the facts behind findings of the log, to judge a recorded request again.

        None where the log has not all of them: a finding is missing, or was cut.
        """
        ...


def fact_text(text: str) -> str:
    """Return a text of a client as it may stand in the log: printable, and cut."""
    shown = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:MAX_FACT_CHARS]
    )
    return shown if len(text) <= MAX_FACT_CHARS else shown[:-1] + "…"


def is_cut(shown: str) -> bool:
    """Tell whether a text of the log may be another one than the client's: it was cut, or made printable."""
    return shown.endswith("…") or "\N{REPLACEMENT CHARACTER}" in shown
