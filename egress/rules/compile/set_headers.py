"""Compile `set_headers:` of an entry: headers with constant values, which are never credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from egress.request_name_folding import fold_header
from egress.rules.compile.injections import CONNECTION_HEADERS, is_same_place
from egress.rules.compile.single_rules import CREDENTIAL_NAME
from egress.rules.decide.decision import METHOD_OVERRIDES, PATH_OVERRIDES
from egress.rules.decide.entry import ScopedInjection
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.report import DocumentCursor, quoted
from egress.types import Headers, Slot

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")
# Rules and readers of bodies go by these, so the request that was judged must be the one that is sent.
_JUDGED_HEADERS: Final = frozenset({"accept-encoding", "range", *METHOD_OVERRIDES, *PATH_OVERRIDES})
_JUDGED_FAMILIES: Final = ("content-", "sec-websocket-")


def set_headers(written: Mapping[str, str], at: DocumentCursor) -> Headers:
    """Compile the headers at `at`; report their mistakes."""
    for name, value in written.items():
        _check_name(name, at / name)
        if looks_like_credential(value):
            (at / name).error("this looks like a credential (not shown)", "name a secret, and use `inject`")
        elif not _VALUE.fullmatch(value):
            (at / name).error("a header value is one line of up to 256 printable ASCII characters")
    return tuple(written.items())


def _check_name(name: str, at: DocumentCursor) -> None:
    folded = fold_header(name.lower())
    if name != name.lower():
        at.key_error("header names must be lower case", f"write {name.lower()}")
    elif not _TOKEN.fullmatch(name):
        at.key_error(f"{quoted(name)} is not a header name")
    elif folded in CONNECTION_HEADERS:
        at.key_error(f"{quoted(name)} belongs to the connection", "remove it")
    elif folded in ("cookie", "set-cookie") or CREDENTIAL_NAME.search(folded):
        at.key_error(f"{quoted(name)} carries a credential", "name a secret, and use `inject`")
    elif folded in _JUDGED_HEADERS or folded.startswith(_JUDGED_FAMILIES):
        at.key_error(f"{quoted(name)} says how the request is read, which a rule cannot change", "remove it")


def check_set_headers(headers: Headers, inject: Sequence[ScopedInjection], at: DocumentCursor) -> None:
    """Refuse a header that is a slot of a credential of the same entry."""
    slots = [slot for item in inject for slot in (*item.injection.slots, *item.strip)]
    for name, _ in headers:
        if any(is_same_place(Slot("header", name), slot) for slot in slots):
            (at / name).key_error(f"{quoted(name)} is the slot of a credential of this entry", "remove it")
