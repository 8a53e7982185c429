"""Put secrets where the marks are, each encoded for the text it stands in.

In a path and a query a secret is percent-encoded, so that it can neither leave its segment or value
nor begin another. A header, a cookie and the user of Basic credentials have no such encoding: a
value that they cannot carry is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from egress.credentials import basic, cookie
from egress.credentials.header import unfit_for_header
from egress.credentials.mark import Draft, target_of
from egress.credentials.outcome import Edit, Refused, Unshown
from egress.credentials.value import is_cookie_value, is_header_line
from egress.types import Slot


@dataclass(slots=True, repr=False, eq=False)
class Fill(Unshown):
    """What one mark stands for."""

    secret: str
    value: bytes


def fill_draft(draft: Draft, fills: Mapping[str, Fill]) -> Edit | Refused:
    """Replace all marks of a draft; `fills` has an entry for each."""
    path = _fill_path(draft.path, fills)
    if isinstance(path, Refused):
        return path
    query_text = None if draft.query is None else _fill(draft.query, fills, _percent_encoded)
    headers: list[tuple[str, str]] = []
    for at, (name, line) in enumerate(draft.headers):
        filled = _fill_header(name, line, draft.pairs.get(at), fills)
        if isinstance(filled, Refused):
            return filled
        headers.append((name, filled))
    return Edit(target_of(path, query_text), tuple(headers), occupied=False)


def _fill(text: str, fills: Mapping[str, Fill], encode: Callable[[bytes], str]) -> str:
    for mark, fill in fills.items():
        if mark in text:
            text = text.replace(mark, encode(fill.value))
    return text


def _percent_encoded(value: bytes) -> str:
    return quote(value, safe="")


def _as_is(value: bytes) -> str:
    return value.decode("latin-1")


def _fill_path(path: str, fills: Mapping[str, Fill]) -> str | Refused:
    filled = _fill(path, fills, _percent_encoded)
    for before, after in zip(path.split("/"), filled.split("/"), strict=True):
        if before != after and unquote(after) in {".", ".."}:
            why = "The value would make a `.` or `..` segment of the path."
            secret = next(fill.secret for mark, fill in fills.items() if mark in before)
            return Refused("secret.unavailable", why, secret, Slot("path"))
    return filled


def _fill_header(name: str, line: str, pair: str | None, fills: Mapping[str, Fill]) -> str | Refused:
    if pair is not None:
        return _fill_basic(line, pair, fills)
    for mark, fill in fills.items():
        if mark not in line:
            continue
        if name == cookie.HEADER and not is_cookie_value(fill.value):
            return cookie.unfit_for_cookie(fill.secret, Slot("cookie"))
        if not is_header_line(_as_is(fill.value)):
            return unfit_for_header(fill.secret, Slot("header", name))
    return _fill(line, fills, _as_is)


def _fill_basic(line: str, pair: str, fills: Mapping[str, Fill]) -> str | Refused:
    user = pair.partition(":")[0]
    for mark, fill in fills.items():
        if mark in user and b":" in fill.value:
            why = "The value has a colon, which the user part of Basic credentials cannot carry."
            return Refused("secret.unavailable", why, fill.secret, Slot("basic"))
    return basic.rewrite_basic(line, _fill(pair, fills, _as_is).encode("latin-1"))
