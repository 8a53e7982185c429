"""Characters that a rule file may not have: what a reviewer cannot see, or what is no text.

A rule file is read by people before it is read by a machine. A character that hides a line from one of
the two, turns the direction of text, or has no width is refused wherever it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

_INVISIBLE = frozenset(
    "\ufeff\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufff9\ufffa\ufffb"
)
"""What turns the direction of text, breaks lines only for some, or has no width."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a position; line and column count from zero."""

    line: int
    column: int
    message: str
    hint: str = ""


def first_fault(text: str) -> Fault | None:
    """The first character that may not stand in a rule file."""
    for number, line in enumerate(text.split("\n")):
        if line.isprintable():
            continue
        for column, character in enumerate(line):
            if character == "\r" and column == len(line) - 1:
                continue
            if character == "\ufeff" and (number, column) == (0, 0):
                continue
            problem = _problem(character)
            if problem is not None:
                return Fault(number, column, *problem)
    return None


def _problem(character: str) -> tuple[str, str] | None:
    if character == "\t" or character.isprintable():
        return None
    if character == "\r":
        # YAML begins a line here, and many editors show none: what follows hides in a comment.
        return "a carriage return stands here alone", "end lines with \\n or \\r\\n"
    if "\ud800" <= character <= "\udfff":
        return "a lone surrogate stands here: the text is not valid Unicode", ""
    number = f"U+{ord(character):04X}"
    if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 or character in "\ufffe\uffff":
        return f"a control character ({number}) stands here", "a rule file is plain UTF-8 text"
    if character in _INVISIBLE:
        return (
            f"an invisible character ({number}) stands here",
            "remove it: a reviewer cannot see what it does",
        )
    return None
