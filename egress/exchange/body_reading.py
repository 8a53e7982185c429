"""The part of a request body that is read before the verdict. Pure.

The bytes themselves stay with the stream of the exchange; here they are counted, digested and inspected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from egress.errors import CODES
from egress.inspect.inspector import (
    BodyKind,
    FactPlace,
    Facts,
    FactValue,
    Inspection,
    More,
    Refusal,
    RefusalAnswer,
    Unreadable,
)
from egress.types import Decision, Head

_TOO_LARGE = Unreadable("body.too_large", "the body is too large")


class BodyReading:
    """A body that rules ask about, and what it says."""

    __slots__ = ("_digest", "_inspector", "_kind", "_place", "_size", "found")

    def __init__(self, kind: BodyKind, head: Head, place: FactPlace | None = None) -> None:
        self._kind = kind
        self._place = place
        self._size = 0
        self._digest = hashlib.sha256()
        begun = kind.begin(head)
        self._inspector = None if isinstance(begun, Facts | Unreadable) else begun
        self.found: Facts | Unreadable | None = None
        """What the body says, as far as it was read; None for nothing yet."""
        if isinstance(begun, Facts | Unreadable):
            self.found = self._placed(begun)

    @property
    def size(self) -> int:
        """The bytes that were read."""
        return self._size

    def feed(self, data: bytes) -> bool:
        """Read a piece; return whether it says anything new."""
        self._size += len(data)
        self._digest.update(data)
        if self._inspector is None:
            return False
        is_too_large = self._size > self._kind.max_held_bytes
        step = _TOO_LARGE if is_too_large else self._inspector.feed(data)
        self._note(step)
        return not isinstance(step, More)

    def end(self) -> None:
        """Read the end."""
        if self._inspector is not None:
            self._note(self._inspector.end())

    def _note(self, step: Inspection) -> None:
        if isinstance(step, More):
            return
        self.found = self._placed(step)
        if isinstance(step, Unreadable) or not step.can_improve:
            self._inspector = None

    def _placed(self, found: Facts | Unreadable) -> Facts | Unreadable:
        return found if self._place is None else self._place.placed(found)

    @property
    def goes_on(self) -> bool:
        """More of the body can lead to facts, or to better ones."""
        return self._inspector is not None

    def log(self, decision: Decision | None) -> Mapping[str, FactValue]:
        """Return the findings for the record."""
        log: dict[str, FactValue] = {"body": self._kind.name, "body_bytes": self._size}
        if self._size:
            log["body_sha256"] = self._digest.hexdigest()
        if decision is not None and decision.item:
            log["body_item"] = decision.item
        return {**log, **self.found.log} if isinstance(self.found, Facts) else log


def refusal_answer(
    kind: BodyKind,
    code: str,
    decision: Decision | None,
    found: Facts | Unreadable | None,
    retry_after: int = 0,
) -> RefusalAnswer:
    """Write a denial in the language of the body."""
    known = CODES.get(code, CODES["internal"])
    rule = decision.rule if decision is not None and not decision.allowed else None
    reason = rule.reason if rule is not None else ""
    refusal = Refusal(
        code,
        " ".join(filter(None, (known.message, reason))),
        known.hint,
        str(rule) if rule is not None else "",
        decision.item if decision is not None else "",
        decision.item_codes if decision is not None else (),
        retry_after,
        known.status,
    )
    return kind.answer(refusal, found)
