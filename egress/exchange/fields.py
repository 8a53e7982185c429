"""The fields of a head, checked once more whichever codec has read them.

HTTP/1.1 and HTTP/2 come from different parsers. What everything here relies on must not depend on
which of them ran: names are lower-case tokens, so that a comparison cannot be missed by spelling,
and no value can end its line.

What the check has to build anyway, the fields by name and as one text, is kept for the questions that
follow: most heads hold nothing special, and are then passed on without another pass over them.
"""

from __future__ import annotations

from egress.errors import WireError
from egress.http1.connection import HOP_BY_HOP, names_to_strip, without
from egress.http1.framing import read_length
from egress.http1.grammar import CANONICAL_BLOCK
from egress.types import Headers


class Fields:
    """Fields that were checked."""

    __slots__ = ("_by_name", "_headers", "length", "text")

    def __init__(self, headers: Headers) -> None:
        """Raise WireError for a name or value that is none, a length that is no plain number, or two."""
        text = "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"
        # As many lines as fields: a value may hold what reads as a well-formed line of its own.
        if CANONICAL_BLOCK.fullmatch(text) is None or text.count("\n") != len(headers) + 1:
            raise WireError("A header field has a name or a value that is none.")
        self.text = text
        """All of them as they stand on the wire: whatever is in a name or a value is in here."""
        self._headers = headers
        self._by_name = dict(headers)
        self.length: int | None = None
        """What Content-Length states, or None."""
        if "content-length" in self._by_name:
            stated = self.values("content-length")
            if len(stated) > 1:
                raise WireError("Content-Length is repeated.")
            self.length = read_length(stated[0])

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
        return self.text.startswith(prefix) or f"\n{prefix}" in self.text

    def travelling(self, gone: frozenset[str] = HOP_BY_HOP) -> Headers:
        """The fields that are not of the connection; see `strip_hop_by_hop`, whose WireError this raises.

        `gone` are the names of those that stay behind in any case.
        """
        gone = names_to_strip(self._headers, self._by_name, gone)
        return without(self._headers, gone) if self.has_any(gone) else self._headers
