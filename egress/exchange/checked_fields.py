"""The fields of a head, checked once more unless our own codec has read them.

What everything here relies on must not depend on which parser has run: names are lower-case tokens, so
that a comparison cannot be missed by spelling, and no value can end its line. Our own reader of HTTP/1.1
says so in the type of what it returns (`ReadFields`); everything else is checked, whatever it was before:
what comes from the library for HTTP/2, and what was taken apart and put together again.

What is built for the check, the fields by name and as one text, is kept for the questions that follow:
most heads hold nothing special, and are then passed on without another pass over them.
"""

from __future__ import annotations

from egress.errors import WireError
from egress.http1.field_block import ReadFields
from egress.http1.framing import read_length
from egress.http1.grammar import CANONICAL_BLOCK
from egress.http1.hop_by_hop import HOP_BY_HOP_FIELDS, names_to_strip, without_fields
from egress.types import Headers


def _text(headers: Headers) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"


def _checked_text(headers: Headers) -> str:
    text = _text(headers)
    # As many lines as fields: a value may hold what reads as a well-formed line of its own.
    if CANONICAL_BLOCK.fullmatch(text) is None or text.count("\n") != len(headers) + 1:
        raise WireError("A header field has a name or a value that is none.")
    return text


class CheckedFields:
    """Fields that were checked."""

    __slots__ = ("_by_name", "_headers", "_text", "length")

    def __init__(self, headers: Headers) -> None:
        """Raise WireError for a name or value that is none, a length that is no plain number, or two."""
        self._headers = headers
        if type(headers) is ReadFields:
            self._text = ""
            self._by_name = headers.by_name
        else:
            self._text = _checked_text(headers)
            self._by_name = dict(headers)
        self.length: int | None = None
        """What Content-Length states, or None."""
        if "content-length" in self._by_name:
            stated = self.values("content-length")
            if len(stated) > 1:
                raise WireError("Content-Length is repeated.")
            self.length = read_length(stated[0])

    @property
    def text(self) -> str:
        """All of them as they stand on the wire: whatever is in a name or a value is in here."""
        headers = self._headers
        if type(headers) is not ReadFields:
            return self._text
        if not headers.lines:
            headers.lines = _text(headers)
        return headers.lines

    def values(self, name: str) -> list[str]:
        """All values of the fields of this name."""
        if len(self._by_name) == len(self._headers):
            return [self._by_name[name]] if name in self._by_name else []
        return [value for each, value in self._headers if each == name]

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether there is a field of one of these names."""
        return not names.isdisjoint(self._by_name)

    def has_prefix(self, prefix: str) -> bool:
        """Whether there is a field whose name begins like this."""
        names = "\n".join(self._by_name)
        return names.startswith(prefix) or f"\n{prefix}" in names

    def end_to_end(self, gone: frozenset[str] = HOP_BY_HOP_FIELDS) -> Headers:
        """The fields that are not of the connection; see `strip_hop_by_hop`, whose WireError this raises.

        `gone` are the names of those that stay behind in any case.
        """
        headers = self._headers
        if type(headers) is not ReadFields:
            return self._without(gone)
        kept = headers.kept.get(gone)
        if kept is None:
            kept = headers.kept[gone] = self._without(gone)
        return kept

    def _without(self, gone: frozenset[str]) -> Headers:
        gone = names_to_strip(self._headers, self._by_name, gone)
        return without_fields(self._headers, gone) if self.has_any(gone) else self._headers
