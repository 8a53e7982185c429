"""Compose YAML text into plain values with the position of each.

Theory of operation. The C event stream of ruamel.yaml is composed by hand into dicts, lists and
scalars, and a table of positions is kept beside every container. So validation works on plain values, at
the speed of plain values, and still names line and column of each.

The subset is narrow on purpose: one document, no anchors, aliases, tags or merge keys, no null, no
key twice, sixteen levels, sixteen MiB. A reviewer sees everything that takes effect.

The meaning of values is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.text_faults import LONE_SURROGATE, describe_syntax_error, find_forbidden_character
from egress.types import Finding, Place, Severity

MAX_CHARACTERS = 16 * 1024 * 1024
MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class MissingValue:
    """Marks a value that is missing in the file. Reported already, so readers report no second finding."""


Scalar = str | int | float | bool | MissingValue
Value = Scalar | list["Value"] | dict[str, "Value"]
ValuePath = tuple[str | int, ...]
Position = tuple[int, int]
"""Line and column, counted from zero as the parser does."""

# Not 0443: YAML 1.1 reads that as an octal number.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+)")
_BOOLEAN_WORDS: dict[str, bool] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NULL_WORDS = frozenset({"", "~", "null", "Null", "NULL"})

NULL_HINT = "write {} for a whole host, [] for nothing, or remove the key"


@dataclass(slots=True)
class Document:
    """The values of one file, and the position of each."""

    name: str
    value: Value = field(default_factory=dict)
    keys: dict[int, dict[str, Position]] = field(default_factory=dict)
    """Position of each key, by the identity of its mapping."""
    values: dict[int, dict[str, Position]] = field(default_factory=dict)
    """Position of each value, by the identity of its mapping."""
    items: dict[int, list[Position]] = field(default_factory=dict)
    """Position of each item, by the identity of its list."""
    used_at: Place | None = None
    """The `use:` item that expanded to this document, if it is a preset."""

    def place(self, path: ValuePath, *, of_key: bool = False) -> Place:
        """Return the place of the value at `path` (or of its key), or of the deepest part that exists.

        Steps that the document does not have are skipped, so that locations of the validator, which also
        name union alternatives, can be passed in as they are.
        """
        current: Value = self.value
        spot: Position = (0, 0)
        for step in path:
            if isinstance(current, dict) and isinstance(step, str) and step in current:
                spot = self._spot(current, step, of_key=of_key)
                current = current[step]
            elif isinstance(current, list) and isinstance(step, int) and step < len(current):
                spot = self.items[id(current)][step]
                current = current[step]
        if self.used_at is not None:
            # A preset is no file of the user: point at the `use:` item, with the preset's line beside.
            used = self.used_at
            return Place(used.file, used.line, used.column, via=f"{self.name}:{spot[0] + 1}")
        return Place(self.name, spot[0] + 1, spot[1] + 1)

    def _spot(self, mapping: dict[str, Value], key: str, *, of_key: bool) -> Position:
        if of_key or isinstance(mapping[key], dict | list):
            # A container begins on the line below its key; people look for the key.
            return self.keys[id(mapping)][key]
        return self.values[id(mapping)][key]


class UnreadableYamlError(Exception):
    """Stops the reading of a file with a finding; never leaves this module."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read(name: str, text: str) -> tuple[Document, list[Finding]]:
    """Compose `text`; never raises. A syntax error ends the reading, other findings do not."""
    document = Document(name)
    return document, YamlComposer(document, text).compose()


class YamlComposer:
    """Composes the one document of a rule file; a subclass reads another kind of file."""

    max_depth = MAX_DEPTH
    depth_hint = "no part of a rule file needs that"
    alias_fault = (
        "this is a YAML alias, which rule files do not use",
        'quote a name that begins with an asterisk: "*.example.com"',
    )

    def __init__(self, document: Document, text: str) -> None:
        self.document = document
        self.text = text
        self.findings: list[Finding] = []
        self._next: Callable[[], object] = lambda: None

    def compose(self) -> list[Finding]:
        """Compose the text and return all findings; never raises."""
        try:
            self._compose()
        except UnreadableYamlError as stop:
            self.findings.append(stop.finding)
        return self.findings

    def _compose(self) -> None:
        self._refuse_unreadable_text()
        try:
            self._next = _event_source(self.text)
            self._stream()
        except UnreadableYamlError:
            raise
        except Exception as error:
            # The parser's classes differ between its C and Python forms; both carry marks.
            if not hasattr(error, "problem") and type(error).__name__ != "ReaderError":
                raise
            raise UnreadableYamlError(self._syntax_finding(error)) from None

    def _syntax_finding(self, error: Exception) -> Finding:
        fault = describe_syntax_error(self.text, error)
        place = Place(self.document.name, fault.line + 1, fault.column + 1)
        return Finding(place, Severity.ERROR, fault.message, fault.hint)

    def _refuse_unreadable_text(self) -> None:
        if len(self.text) > MAX_CHARACTERS:
            self._stop((0, 0), "the file is larger than 16 MiB", "split it into hosts.d/*.yaml")
        fault = find_forbidden_character(self.text)
        if fault is not None:
            self._stop((fault.line, fault.column), fault.message, fault.hint)

    def _stream(self) -> None:
        next_event = self._next
        next_event()  # stream start
        event = next_event()
        if type(event).__name__ == "StreamEndEvent":
            self._stop((0, 0), "the file is empty", "start with `version: 1`")
        node = next_event()
        self.document.value = self._value(node, 1)
        next_event()  # document end
        event = next_event()
        if type(event).__name__ != "StreamEndEvent":
            self._stop(
                spot_of(event),
                "a second document begins here",
                "a rule file is one YAML document: remove `---`",
            )

    def _value(self, event: object, depth: int, spot: Position | None = None) -> Value:
        kind = type(event).__name__
        if kind == "AliasEvent":
            # Refused before anything is built: aliases and nesting can expand a small file without end.
            self._stop(spot_of(event), *self.alias_fault)
        self._refuse_decoration(event)
        if kind == "ScalarEvent":
            return self._scalar(event, spot or spot_of(event))
        if depth > self.max_depth:
            self._stop(spot_of(event), f"nesting is deeper than {self.max_depth} levels", self.depth_hint)
        if kind == "MappingStartEvent":
            return self._mapping(depth)
        return self._sequence(depth)

    def _mapping(self, depth: int) -> dict[str, Value]:
        mapping: dict[str, Value] = {}
        keys: dict[str, Position] = {}
        values: dict[str, Position] = {}
        self.document.keys[id(mapping)] = keys
        self.document.values[id(mapping)] = values
        next_event = self._next
        while type(event := next_event()).__name__ != "MappingEndEvent":
            spot, behind = spot_of(event), _behind(event)
            key = self._key(event, depth)
            event = next_event()
            value_spot = behind if _is_left_out(event) else spot_of(event)
            # Read the value even if its key is bad, so that findings inside it are reported in the same run.
            value = self._value(event, depth + 1, value_spot)
            if key is None:
                continue
            if key in mapping:
                first = keys[key][0] + 1
                self._finding(
                    spot,
                    f"duplicate key `{safe_excerpt(key)}` (first on line {first})",
                    "keep one of them",
                )
                continue
            mapping[key] = value
            keys[key] = spot
            values[key] = value_spot
        return mapping

    def _key(self, event: object, depth: int) -> str | None:
        if type(event).__name__ != "ScalarEvent":
            spot = spot_of(event)
            self._value(event, depth + 1)
            self._finding(spot, "a key must be plain text", "a key cannot be a list or a mapping")
            return None
        key = self._text(event)
        if key == "<<" and is_plain(event):
            self._finding(spot_of(event), "merge keys are not allowed here", "write the keys out")
            return None
        self._refuse_decoration(event)
        return key

    def _refuse_decoration(self, event: object) -> None:
        if getattr(event, "anchor", None) is not None:
            self._finding(spot_of(event), "anchors are not allowed here", "write the value out in each place")
        if getattr(event, "tag", None) is not None:
            self._finding(spot_of(event), "tags are not allowed here", "remove the `!`")

    def _sequence(self, depth: int) -> list[Value]:
        sequence: list[Value] = []
        spots: list[Position] = []
        self.document.items[id(sequence)] = spots
        next_event = self._next
        while type(event := next_event()).__name__ != "SequenceEndEvent":
            spots.append(spot_of(event))
            sequence.append(self._value(event, depth + 1))
        return sequence

    def _scalar(self, event: object, spot: Position) -> Scalar:
        text = self._text(event)
        if not is_plain(event):
            return text
        if text in _NULL_WORDS:
            return self._null(spot)
        return self._plain(text, spot)

    def _null(self, spot: Position) -> Scalar:
        self._finding(spot, "the value is missing", NULL_HINT)
        return MissingValue()

    def _plain(self, text: str, spot: Position) -> Scalar:  # noqa: ARG002 - for a subclass
        """Read a scalar that is not quoted; a subclass may have findings at `spot`."""
        word = _BOOLEAN_WORDS.get(text)
        if word is not None:
            return word
        if text[0] in "+-.0123456789":
            if _INTEGER.fullmatch(text):
                return int(text)
            if _FLOAT.fullmatch(text):
                return float(text)
        return text

    def _text(self, event: object) -> str:
        text: str = event.value  # type: ignore[attr-defined]
        if not text.isascii() and _SURROGATE.search(text):
            # Only the Python parser lets such an escape through.
            self._stop(spot_of(event), *LONE_SURROGATE)
        return text

    def _finding(self, spot: Position, message: str, hint: str = "") -> None:
        place = Place(self.document.name, spot[0] + 1, spot[1] + 1)
        self.findings.append(Finding(place, Severity.ERROR, message, hint))

    def _stop(self, spot: Position, message: str, hint: str = "") -> None:
        place = Place(self.document.name, spot[0] + 1, spot[1] + 1)
        raise UnreadableYamlError(Finding(place, Severity.ERROR, message, hint))


def safe_excerpt(text: str) -> str:
    """Make `text` fit for a message: one short printable line without anything like a credential."""
    if looks_like_credential(text):
        return "(hidden: it looks like a credential)"
    short = text if len(text) <= 60 else text[:57] + "..."
    return "".join(c if c.isprintable() and c != "`" else "?" for c in short)


def _event_source(text: str) -> Callable[[], object]:
    try:
        from _ruamel_yaml import CParser  # noqa: PLC0415 - may be missing
    except ImportError:
        from ruamel.yaml import YAML  # noqa: PLC0415 - only where the C parser is missing

        stream: Iterator[object] = iter(YAML(pure=True, typ="safe").parse(text))
        return lambda: next(stream)
    parse: Callable[[], object] = CParser(text).get_event
    return parse


def spot_of(event: object) -> Position:
    """Return the position at which an event of the parser begins."""
    mark = event.start_mark  # type: ignore[attr-defined]
    return mark.line, mark.column


def _behind(event: object) -> Position:
    """Return the position after the colon of a key, at which its value would begin."""
    mark = event.end_mark  # type: ignore[attr-defined]
    return mark.line, mark.column + 1


def _is_left_out(event: object) -> bool:
    """Report whether no value was written at all: the parsers disagree about its position."""
    return getattr(event, "value", None) == "" and is_plain(event)


def is_plain(event: object) -> bool:
    """Report whether a scalar stands without quotes."""
    implicit = getattr(event, "implicit", None)
    return isinstance(implicit, tuple) and bool(implicit[0])


_SURROGATE = re.compile("[\ud800-\udfff]")
