"""Swap the placeholders of a sandbox for secrets, in the slots that the rules name.

Theory of operation. First every plain placeholder in one of its slots is replaced by a mark. Any placeholder
the search still finds afterwards is misplaced, in whatever spelling, and the request is refused. Only then
are the marks replaced by the secrets. So a secret is never searched and never swapped into another, and the
order of the needs does not matter.

Only the plain spelling is swapped: placeholders consist of characters that no client has to encode, so an
encoded placeholder is a disguise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from egress.credentials import basic, cookie, query
from egress.credentials.header import is_header_line, unfit_for_header
from egress.credentials.placeholder_search import Placeholders
from egress.credentials.result import CredentialRefusal, HeadEdit, Unprintable
from egress.credentials.secret_value_check import is_cookie_value
from egress.types import Head, Headers, InjectPlaceholder, Slot


# A mark is one character above 0xff, which no text from the wire can hold, so it cannot be confused with any.
# If servers disagree about the extent of a slot (a `;` in a query, a `,` in a cookie, a fragment), the text
# belongs to no slot and nothing is marked.
@dataclass(slots=True)
class HeadDraft:
    """A head being edited; `pairs` holds decoded Basic credentials with marks in them, by position."""

    path: str
    query: str | None
    headers: list[tuple[str, str]]
    pairs: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, head: Head) -> HeadDraft:
        """Split a head."""
        path, asked, rest = head.target.partition("?")
        return cls(path, rest if asked else None, list(head.headers))

    def copy(self) -> HeadDraft:
        """Return a draft that can be marked without changing this one."""
        return HeadDraft(self.path, self.query, list(self.headers), dict(self.pairs))

    def target(self) -> str:
        """Join path and query."""
        return join_target(self.path, self.query)

    def decoded_headers(self) -> Headers:
        """Return the headers, with marked Basic credentials decoded so that they can be searched."""
        return tuple((name, self.pairs.get(at, line)) for at, (name, line) in enumerate(self.headers))


def join_target(path: str, query_text: str | None) -> str:
    """Join path and query; None means that the target has no question mark."""
    return path if query_text is None else f"{path}?{query_text}"


def mark_slot(draft: HeadDraft, slot: Slot, value: str, mark: str) -> int:
    """Replace every plain occurrence of the value in the slot by the mark; return their number."""
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


def _mark_header(draft: HeadDraft, name: str, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent == name and value in line:
            count += line.count(value)
            draft.headers[at] = (sent, line.replace(value, mark))
    return count


def _mark_basic(draft: HeadDraft, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent != basic.AUTHORIZATION_HEADER:
            continue
        pair = draft.pairs.get(at) or basic.read_basic(line)
        if pair is not None and value in pair:
            count += pair.count(value)
            draft.pairs[at] = pair.replace(value, mark)
    return count


def _mark_query(draft: HeadDraft, name: str, value: str, mark: str) -> int:
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


def _mark_cookie(draft: HeadDraft, name: str, value: str, mark: str) -> int:
    count = 0
    for at, (sent, line) in enumerate(draft.headers):
        if sent != cookie.COOKIE_HEADER or value not in line:
            continue
        pieces = line.split(";")
        for index, piece in enumerate(pieces):
            if "," not in piece and cookie.cookie_name(piece) == name:
                pieces[index], found = _mark_after_name(piece, value, mark)
                count += found
        draft.headers[at] = (sent, ";".join(pieces))
    return count


def _mark_path(draft: HeadDraft, value: str, mark: str) -> int:
    count = draft.path.count(value)
    draft.path = draft.path.replace(value, mark)
    return count


def _mark_after_name(piece: str, value: str, mark: str) -> tuple[str, int]:
    name, equals, rest = piece.partition("=")
    return name + equals + rest.replace(value, mark), rest.count(value)


# In a path or query, a secret is percent-encoded, so that it can neither leave its segment or value nor begin
# a further segment or value. A header, a cookie and the user of Basic credentials have no such encoding: a
# value that they cannot carry is refused.
@dataclass(slots=True, repr=False, eq=False)
class Substitution(Unprintable):
    """The secret behind a mark."""

    secret: str
    value: bytes


def substitute(draft: HeadDraft, fills: Mapping[str, Substitution]) -> HeadEdit | CredentialRefusal:
    """Replace all marks of a draft; `fills` has an entry for each."""
    path = _substitute_path(draft.path, fills)
    if isinstance(path, CredentialRefusal):
        return path
    query_text = None if draft.query is None else _substitute_text(draft.query, fills, _percent_encoded)
    headers: list[tuple[str, str]] = []
    for at, (name, line) in enumerate(draft.headers):
        filled = _substitute_header(name, line, draft.pairs.get(at), fills)
        if isinstance(filled, CredentialRefusal):
            return filled
        headers.append((name, filled))
    return HeadEdit(join_target(path, query_text), tuple(headers), occupied=False)


def _substitute_text(text: str, fills: Mapping[str, Substitution], encode: Callable[[bytes], str]) -> str:
    for mark, fill in fills.items():
        if mark in text:
            text = text.replace(mark, encode(fill.value))
    return text


def _percent_encoded(value: bytes) -> str:
    return quote(value, safe="")


def _as_is(value: bytes) -> str:
    return value.decode("latin-1")


def _substitute_path(path: str, fills: Mapping[str, Substitution]) -> str | CredentialRefusal:
    filled = _substitute_text(path, fills, _percent_encoded)
    # Compare segment by segment: a secret made of dots could climb out of the path that the rule allowed.
    for before, after in zip(path.split("/"), filled.split("/"), strict=True):
        if before != after and unquote(after) in {".", ".."}:
            why = "The value would make a `.` or `..` segment of the path."
            secret = next(fill.secret for mark, fill in fills.items() if mark in before)
            return CredentialRefusal("secret.unavailable", why, secret, Slot("path"))
    return filled


def _substitute_header(
    name: str, line: str, pair: str | None, fills: Mapping[str, Substitution]
) -> str | CredentialRefusal:
    if pair is not None:
        return _substitute_basic(line, pair, fills)
    for mark, fill in fills.items():
        if mark not in line:
            continue
        if name == cookie.COOKIE_HEADER and not is_cookie_value(fill.value):
            return cookie.unfit_for_cookie(fill.secret, Slot("cookie"))
        if not is_header_line(_as_is(fill.value)):
            return unfit_for_header(fill.secret, Slot("header", name))
    return _substitute_text(line, fills, _as_is)


def _substitute_basic(line: str, pair: str, fills: Mapping[str, Substitution]) -> str | CredentialRefusal:
    user = pair.partition(":")[0]
    for mark, fill in fills.items():
        if mark in user and b":" in fill.value:
            why = "The value has a colon, which the user part of Basic credentials cannot carry."
            return CredentialRefusal("secret.unavailable", why, fill.secret, Slot("basic"))
    return basic.rewrite_basic(line, _substitute_text(pair, fills, _as_is).encode("latin-1"))


# Above latin-1, which every character of the wire fits into.
_FIRST_MARK = 0x100


@dataclass(slots=True, repr=False, eq=False)
class _Marked(Unprintable):
    """A draft, the secrets of its marks, and the slots written."""

    draft: HeadDraft
    fills: dict[str, Substitution]
    written: list[tuple[str, Slot]]


def swap_placeholders(
    head: Head,
    needs: Sequence[InjectPlaceholder],
    values: Mapping[str, bytes],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool = False,
) -> tuple[HeadEdit, list[tuple[str, Slot]]] | CredentialRefusal:
    """Swap placeholders in their slots; refuse placeholders anywhere else, or too many.

    With `misplaced_pass` the latter stay in the head unchanged. Total: no head raises.
    """
    # A character above latin-1 in the head could be taken for a mark.
    if not _is_wire_text(head):
        why = "The request head contains characters that cannot come from the wire."
        return CredentialRefusal("request.malformed", why)
    marked = _mark(head, needs, values, placeholders, misplaced_pass=misplaced_pass)
    if isinstance(marked, CredentialRefusal):
        return marked
    misplaced = None if misplaced_pass else _misplaced(head, marked.draft, placeholders)
    if misplaced is not None:
        return misplaced
    edit = substitute(marked.draft, marked.fills)
    return edit if isinstance(edit, CredentialRefusal) else (edit, marked.written)


def _is_wire_text(head: Head) -> bool:
    texts = (head.target, *(text for header in head.headers for text in header))
    return all(text.isascii() or max(text) <= "\xff" for text in texts)


def _mark(
    head: Head,
    needs: Sequence[InjectPlaceholder],
    values: Mapping[str, bytes],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool,
) -> _Marked | CredentialRefusal:
    marked = _Marked(HeadDraft.of(head), {}, [])
    for number, need in enumerate(needs):
        stand_in = placeholders.value(need.secret, need.like)
        if stand_in is None:
            continue
        mark = chr(_FIRST_MARK + number)
        # Work on a copy: if there are too many occurrences, the draft must stay as it is.
        trial = marked.draft.copy()
        counts = [(mark_slot(trial, slot, stand_in, mark), slot) for slot in dict.fromkeys(need.slots)]
        found = [slot for count, slot in counts if count]
        is_too_often = sum(count for count, _ in counts) > need.max
        if not found or (is_too_often and misplaced_pass):
            # Above the maximum none is swapped: choosing the right one would be a guess.
            continue
        if is_too_often:
            why = "A placeholder occurs in its slots more often than `max` allows."
            return CredentialRefusal("placeholder.misplaced", why, need.secret, found[0])
        value = values.get(need.secret)
        if not value:
            return CredentialRefusal(
                "secret.unavailable", "No value was given for the secret.", need.secret, found[0]
            )
        marked.draft = trial
        marked.fills[mark] = Substitution(need.secret, value)
        marked.written += [(need.secret, slot) for slot in found]
    return marked


def _misplaced(head: Head, draft: HeadDraft, placeholders: Placeholders) -> CredentialRefusal | None:
    left = placeholders.find(replace(head, target=draft.target(), headers=draft.decoded_headers()))
    if not left:
        return None
    why = "A placeholder of this sandbox occurs outside its slots."
    if left[0].secret is None:
        why = "The head is percent-encoded too many times to be searched for placeholders."
    return CredentialRefusal("placeholder.misplaced", why, left[0].secret, Slot(left[0].where))
