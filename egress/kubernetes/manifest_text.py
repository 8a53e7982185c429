"""Read the text of Kubernetes manifests, strictly: several documents, and the position of each value.

The parser of kubectl and a parser of YAML 1.2 read some words in two ways: `yes` is true for one and text
for the other. A fence that is checked under one reading and applied under the other is not checked. So such
words are refused, as are aliases, tags and separators that only one of the two parsers sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isinf
from typing import Final

from egress.rules.language.document import (
    Document,
    MissingValue,
    Position,
    Scalar,
    Value,
    YamlComposer,
    is_plain,
    safe_excerpt,
    spot_of,
)
from egress.types import Finding

MAX_DOCUMENTS: Final = 4096
MAX_MANIFEST_DEPTH: Final = 64
"""The schema of a custom resource is the deepest object that is met, at about half of this."""

BOOLEAN_LIKE_WORDS: Final = frozenset(
    word for base in ("y", "n", "yes", "no", "on", "off") for word in (base, base.capitalize(), base.upper())
)
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_PLAIN_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]{0,17})|(?:[0-9]+\.[0-9]*|\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?[eE][-+]?[0-9]+))"
)
# A number as a key becomes text again, in a spelling of the parser's own unless it is this one.
_PLAIN_KEY_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
# Any number of the parser of kubectl, once its underscores are taken out.
_ANY_NUMBER = re.compile(
    r"""[-+]?(?:
      0[xX][0-9a-fA-F]+ | 0[bB][-+]?[01]+ | 0[oO][0-7]+ | (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
    | \.(?:inf|Inf|INF|nan|NaN|NAN)
    )""",
    re.VERBOSE,
)
# kubectl ends a document at these three characters, whatever follows them on the line.
_GLUED_SEPARATOR = re.compile(r"^---(?!(?:[ \t]+(?:#[^\n]*)?)?\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One document of a file, with the lines of text that belong to it."""

    number: int
    """Counted from one, as people do."""
    source: Document
    value: Value
    first_line: int
    """Index of the line with its `---`, or 0."""
    root_line: int
    """Index of the line on which its value begins."""
    end_line: int
    """Index of the line behind its last one."""


@dataclass(frozen=True, slots=True)
class ManifestText:
    """A file of manifests as it was read."""

    name: str
    text: str
    documents: tuple[ManifestDocument, ...]
    findings: tuple[Finding, ...]
    """Mistakes in the text. With any of them the documents are not to be used."""


def read_manifests(name: str, text: str) -> ManifestText:
    """Read the documents of a file; never raises. Documents without a value are left out."""
    composer = _ManifestComposer(name, text)
    findings = tuple(composer.compose())
    return ManifestText(name, text, () if findings else composer.documents(), findings)


class _ManifestComposer(YamlComposer):
    max_depth = MAX_MANIFEST_DEPTH
    depth_hint = "no manifest needs that"
    alias_fault = (
        "this is a YAML alias, which is not read here",
        "write the value out; `kubectl apply --dry-run=client -o yaml` does it",
    )

    def __init__(self, name: str, text: str) -> None:
        super().__init__(Document(name), text)
        self._read: list[tuple[Document, int, int]] = []

    def documents(self) -> tuple[ManifestDocument, ...]:
        # Comments above the first document belong to it.
        starts = [0, *(first for _, first, _ in self._read[1:]), len(self.text.splitlines())]
        return tuple(
            ManifestDocument(number, source, source.value, starts[number - 1], root, starts[number])
            for number, (source, _, root) in enumerate(self._read, 1)
            # A document of comments alone is no object.
            if not isinstance(source.value, MissingValue)
        )

    def _stream(self) -> None:
        if glued := _GLUED_SEPARATOR.search(self.text):
            self._stop(
                (self.text.count("\n", 0, glued.start()), 0),
                "text follows `---` on its line, which kubectl drops",
                "begin a new line behind `---`",
            )
        next_event = self._next
        next_event()  # stream start
        while type(event := next_event()).__name__ != "StreamEndEvent":
            if len(self._read) == MAX_DOCUMENTS:
                self._stop(spot_of(event), f"more than {MAX_DOCUMENTS} documents", "check them in parts")
            if getattr(event, "version", None) or getattr(event, "tags", None):
                self._stop(spot_of(event), "kubectl takes a `%` line for a document", "remove the line")
            # A fresh table of positions for each: a value of one document is no part of another.
            self.document = Document(self.document.name)
            node = next_event()
            self.document.value = self._value(node, 1)
            self._read.append((self.document, spot_of(event)[0], spot_of(node)[0]))
            end = next_event()
            if getattr(end, "explicit", None):
                self._stop(spot_of(end), "kubectl does not end a document at `...`", "write `---` instead")

    def _null(self, spot: Position) -> Scalar:  # noqa: ARG002 - null is a value here
        return MissingValue()

    def _plain(self, text: str, spot: Position) -> Scalar:
        if text in BOOLEAN_LIKE_WORDS:
            self._finding(
                spot, f"kubectl reads `{text}` as true or false", "write true or false, or quote it"
            )
        elif _OCTAL.fullmatch(text):
            return int(text, 8)
        elif _is_odd_number(text) or _is_endless(text):
            self._finding(
                spot,
                f"`{safe_excerpt(text)}` is a number for some readers and text for others",
                "quote it, or write the number in decimal",
            )
        return super()._plain(text, spot)

    def _key(self, event: object, depth: int) -> str | None:
        key = super()._key(event, depth)
        if key is not None and is_plain(event) and _is_ambiguous_key(key):
            self._finding(
                spot_of(event), f"kubectl reads the key `{safe_excerpt(key)}` otherwise", "quote it"
            )
        return key


def _is_ambiguous_key(key: str) -> bool:
    is_word = key in BOOLEAN_LIKE_WORDS or key.lower() in {"true", "false", "null", "~", ""}
    return is_word or (_is_number(key) and not _PLAIN_KEY_NUMBER.fullmatch(key))


def _is_odd_number(text: str) -> bool:
    return _is_number(text) and not _PLAIN_NUMBER.fullmatch(text)


def _is_number(text: str) -> bool:
    # A word that begins with an underscore is text for everybody.
    return not text.startswith("_") and bool(_ANY_NUMBER.fullmatch(text.replace("_", "")))


def _is_endless(text: str) -> bool:
    """Report whether a number is too large for a float, which has no spelling of its own for it."""
    return bool(_PLAIN_NUMBER.fullmatch(text)) and isinf(float(text))


def reads_as_text(text: str) -> bool:
    """Report whether every parser reads this text as text when it stands without quotes."""
    is_word = text in BOOLEAN_LIKE_WORDS or text.lower() in {"true", "false", "null", "~", ""}
    return not is_word and not _is_number(text)
