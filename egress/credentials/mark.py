"""Replace a placeholder by a mark wherever it stands plainly in one of its slots.

A mark is one character above 0xff, which no text off the wire can hold, so it can be confused with
nothing. Where servers disagree what belongs to a slot (a `;` in a query, a `,` in a cookie, a
fragment), the place belongs to no slot and nothing is marked there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from egress.credentials import basic, cookie, query
from egress.types import Head, Headers, Slot


@dataclass(slots=True)
class Draft:
    """A head under work; `pairs` holds the decoded Basic credentials with marks in them, by position."""

    path: str
    query: str | None
    headers: list[tuple[str, str]]
    pairs: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, head: Head) -> Draft:
        """Take a head apart."""
        path, asked, rest = head.target.partition("?")
        return cls(path, rest if asked else None, list(head.headers))

    def copy(self) -> Draft:
        """Make a draft that can be marked without touching this one."""
        return Draft(self.path, self.query, list(self.headers), dict(self.pairs))

    def target(self) -> str:
        """Join path and query again."""
        return target_of(self.path, self.query)

    def decoded_headers(self) -> Headers:
        """Give the headers, with marked Basic credentials in clear so that they can be searched."""
        return tuple((name, self.pairs.get(at, line)) for at, (name, line) in enumerate(self.headers))


def target_of(path: str, query_text: str | None) -> str:
    """Join path and query; None means that there was no question mark."""
    return path if query_text is None else f"{path}?{query_text}"


def mark_slot(draft: Draft, slot: Slot, value: str, mark: str) -> int:
    """Put the mark for every plain occurrence of the value in the slot; say how many there were."""
    if slot.kind == "header":
        return _mark_header(draft, slot.name, value, mark)
    if slot.kind == "basic":
        return _mark_basic(draft, value, mark)
    if slot.kind == "cookie":
        return _mark_cookie(draft, slot.name, value, mark)
    if not query.has_query(draft.target()):
        return 0
    if slot.kind == "query":
        return _mark_query(draft, slot.name, value, mark)
    return _mark_path(draft, value, mark)


def _mark_header(draft: Draft, name: str, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent == name and value in line:
            count += line.count(value)
            draft.headers[at] = (sent, line.replace(value, mark))
    return count


def _mark_basic(draft: Draft, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent != basic.HEADER:
            continue
        pair = draft.pairs.get(at) or basic.read_basic(line)
        if pair is not None and value in pair:
            count += pair.count(value)
            draft.pairs[at] = pair.replace(value, mark)
    return count


def _mark_query(draft: Draft, name: str, value: str, mark: str) -> int:
    wanted = query.wire_name(name)
    pieces = (draft.query or "").split("&")
    count = 0
    for at, piece in enumerate(pieces):
        if value in piece and ";" not in piece and query.parameter_name(piece) == wanted:
            pieces[at], found = _mark_after_name(piece, value, mark)
            count += found
    if count:
        draft.query = "&".join(pieces)
    return count


def _mark_cookie(draft: Draft, name: str, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent != cookie.HEADER or value not in line:
            continue
        pieces = line.split(";")
        for index, piece in enumerate(pieces):
            if "," not in piece and cookie.cookie_name(piece) == name:
                pieces[index], found = _mark_after_name(piece, value, mark)
                count += found
        draft.headers[at] = (sent, ";".join(pieces))
    return count


def _mark_path(draft: Draft, value: str, mark: str) -> int:
    count = draft.path.count(value)
    draft.path = draft.path.replace(value, mark)
    return count


def _mark_after_name(piece: str, value: str, mark: str) -> tuple[str, int]:
    name, equals, rest = piece.partition("=")
    return name + equals + rest.replace(value, mark), rest.count(value)
