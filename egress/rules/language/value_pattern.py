r"""Patterns for whole values: a small regular expression that is matched in linear time.

    letters, digits, - _ ~ / @ : , = +      themselves
    \.  \-  and so on                       the character behind the backslash
    [a-z0-9._-]                             one of these characters
    (one|two)                               one of these patterns
    ?  *  +  {3}  {1,40}                    how often what stands before it is repeated

There is no other notation: no dot for any character, no anchors, no captures, no look-around. A pattern
always fits the whole value.

Theory of operation. A pattern becomes an automaton without backtracking: the set of states that a value can
have reached is kept, and moves on with each character. So no value, however chosen, costs more than its
length times the number of states, and both are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from egress.rules.language.report import MeaningError

MAX_PATTERN_CHARS: Final = 200
MAX_STATES: Final = 600
MAX_VALUE_CHARS: Final = 256
MAX_DEPTH: Final = 8

VALUE_CHARS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/@:+,=")
"""What a value can consist of: characters with one spelling in a path, a query and a header alike."""
_PLAIN: Final = VALUE_CHARS - {"."} - {"+"}
_HINT: Final = "write letters, digits, classes such as [a-z0-9-], groups (a|b), and repetitions ? * + {2,5}"


@dataclass(frozen=True, slots=True)
class _State:
    """One state: the characters that lead on, and the states that are reached without one."""

    chars: frozenset[str]
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """A pattern that a whole value fits, or does not."""

    text: str
    _states: tuple[_State, ...] = field(repr=False, compare=False)
    """A character leads from a state to the next one; the last state is the end."""

    def matches(self, value: str) -> bool:
        """Report whether the whole value fits."""
        if len(value) > MAX_VALUE_CHARS:
            return False
        reached = self._closed({0})
        for character in value:
            reached = self._closed({at + 1 for at in reached if character in self._states[at].chars})
            if not reached:
                return False
        return len(self._states) - 1 in reached

    def _closed(self, states: set[int]) -> set[int]:
        """Add all states that are reached without a character."""
        waiting = list(states)
        while waiting:
            new = [at for at in self._states[waiting.pop()].free if at not in states]
            states.update(new)
            waiting += new
        return states


def parse_value_pattern(text: str) -> ValuePattern:
    """Read a pattern. Raises `MeaningError`."""
    if not text or len(text) > MAX_PATTERN_CHARS:
        raise MeaningError(f"a pattern has 1 to {MAX_PATTERN_CHARS} characters", _HINT)
    reader = _Reader(text)
    part = reader.choice()
    if reader.rest:
        raise MeaningError("this pattern closes a group that it has not opened", _HINT)
    states = [*part, _State(frozenset(), ())]
    return ValuePattern(text, tuple(states))


def value_fault(value: str) -> str:
    """Return why a text cannot be the value of any parameter; empty if it can."""
    if not value or len(value) > MAX_VALUE_CHARS:
        return f"a value has 1 to {MAX_VALUE_CHARS} characters"
    if not VALUE_CHARS.issuperset(value):
        return "a value consists of letters, digits and any of - . _ ~ / @ : + , ="
    # A server could leave the path that the rule names.
    if any(segment in ("", ".", "..") for segment in value.split("/")):
        return "a value has no empty segment, and none that is . or .."
    return ""


# A part of a pattern is a list of states whose free moves are relative to their own place. The end of a part
# is the place right behind it.
type _Part = list[_State]


class _Reader:
    """Reads a pattern from its left to its right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def choice(self) -> list[_State]:
        """Read alternatives, up to the end or a closing bracket; return states with absolute moves."""
        return _absolute(self._choice())

    def _choice(self) -> _Part:
        found = [self._sequence()]
        while self.rest.startswith("|"):
            self._at += 1
            found.append(self._sequence())
        part = found.pop()
        while found:
            part = _either(found.pop(), part)
        return part

    def _sequence(self) -> _Part:
        part: _Part = []
        while self.rest and self.rest[0] not in "|)":
            part = _bounded([*part, *self._repeated()])
        if not part:
            raise MeaningError("a part of this pattern is empty", _HINT)
        return part

    def _repeated(self) -> _Part:
        part = self._atom()
        match self.rest[:1]:
            case "?":
                self._at += 1
                return _optional(part)
            case "*":
                self._at += 1
                return _optional(_loop(part))
            case "+":
                self._at += 1
                return _loop(part)
            case "{":
                return self._counted(part)
        return part

    def _counted(self, part: _Part) -> _Part:
        body, closed, _ = self.rest[1:].partition("}")
        low, comma, high = body.partition(",")
        if not closed or not _is_count(low) or (comma and high and not _is_count(high)):
            raise MeaningError("this repetition is not one", "write {3}, {1,40} or {2,}")
        least, most = int(low), int(high) if high else int(low)
        is_open = bool(comma) and not high
        if not is_open and (most < least or most == 0):
            raise MeaningError("this repetition has no meaning", "the second number is the larger one")
        self._at += len(body) + 2
        if is_open:
            return _bounded([*part * (least - 1), *_loop(part)]) if least else _optional(_loop(part))
        # `{1,3}` is the part, and then twice a part that may be left out.
        _bounded(part * most)
        return _bounded([*part * least, *_optional(part) * (most - least)])

    def _atom(self) -> _Part:
        character = self.rest[0]
        if character == "(":
            return self._group()
        if character == "[":
            return [_State(self._char_class(), ())]
        if character == "\\":
            return [_State(frozenset({self._escaped()}), ())]
        if character not in _PLAIN:
            hint = "write \\. for a dot" if character == "." else _HINT
            raise MeaningError("this pattern has a character without a meaning", hint)
        self._at += 1
        return [_State(frozenset({character}), ())]

    def _group(self) -> _Part:
        self._at += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MeaningError(f"this pattern has groups deeper than {MAX_DEPTH}", _HINT)
        part = self._choice()
        if not self.rest.startswith(")"):
            raise MeaningError("a group of this pattern is not closed", "add the missing )")
        self._at += 1
        self._depth -= 1
        return part

    def _escaped(self) -> str:
        character = self.rest[1:2]
        # A letter behind a backslash would mean a class in other languages.
        if character not in VALUE_CHARS or character.isalnum():
            raise MeaningError("a backslash stands before a character that is none", _HINT)
        self._at += 2
        return character

    def _char_class(self) -> frozenset[str]:
        body, closed, _ = self.rest[1:].partition("]")
        if not closed or not body or body.startswith("^"):
            raise MeaningError("this class of characters is not one", "write it as in [a-z0-9._-]")
        self._at += len(body) + 2
        found: set[str] = set()
        place = 0
        while place < len(body):
            first, last = body[place], body[place]
            # A minus at either end is the character.
            if body[place + 1 : place + 2] == "-" and place + 2 < len(body):
                last = body[place + 2]
                place += 2
            found |= _range(first, last)
            place += 1
        return frozenset(found)


def _range(first: str, last: str) -> set[str]:
    found = {chr(number) for number in range(ord(first), ord(last) + 1)}
    is_plain = first == last or (first.isalpha() and last.isalpha()) or (first.isdigit() and last.isdigit())
    if not found or not is_plain or not found <= VALUE_CHARS:
        raise MeaningError("a class has characters that no value has", "write it as in [a-z0-9._-]")
    return found


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3


def _bounded(part: _Part) -> _Part:
    if len(part) > MAX_STATES:
        raise MeaningError("this pattern is too large", "repeat less")
    return part


def _optional(part: _Part) -> _Part:
    """A part that may be left out: from its beginning a free move leads behind its end."""
    return [_State(frozenset(), (1, len(part) + 1)), *part]


def _loop(part: _Part) -> _Part:
    """A part once or more often: from its end a free move leads back to its beginning."""
    return [*part, _State(frozenset(), (-len(part), 1))]


def _either(one: _Part, other: _Part) -> _Part:
    """One part or the other: the first one ends with a free move behind the second."""
    return _bounded(
        [
            _State(frozenset(), (1, len(one) + 2)),
            *one,
            _State(frozenset(), (len(other) + 1,)),
            *other,
        ]
    )


def _absolute(part: _Part) -> list[_State]:
    return [_State(state.chars, tuple(at + move for move in state.free)) for at, state in enumerate(part)]
