"""Empty slots of a request head, so that no value of the sandbox stands beside an injected credential.

A service that reads a credential from several slots would otherwise choose between ours and one that the
sandbox brought along. A slot is emptied in every spelling that some server takes for it. Where a head can be
read in two ways, the request is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from egress.credentials import cookie, query
from egress.credentials.header import without_header
from egress.credentials.result import CredentialRefusal
from egress.types import Headers, Slot


@dataclass(slots=True)
class StrippedHead:
    """A target and headers after slots were emptied, and the slots that held a value."""

    # Not shown: what is left of the head may hold other values of the sandbox.
    target: str = field(repr=False)
    headers: Headers = field(repr=False)
    stripped: tuple[Slot, ...]


def strip_slots(target: str, headers: Headers, slots: Sequence[Slot]) -> StrippedHead | CredentialRefusal:
    """Empty the slots. The parts of the head that hold none of them keep their bytes."""
    stripped: list[Slot] = []
    for slot in slots:
        if slot.kind == "query":
            edited = _without_parameter(target, slot.name)
            if edited is None:
                return _two_readings(slot)
            was_there, target = edited != target, edited
        elif slot.kind == "cookie":
            kept = _without_cookie(headers, slot.name)
            if kept is None:
                return _two_readings(slot)
            was_there, headers = kept is not headers, kept
        else:
            fields = without_header(headers, slot.name)
            was_there = len(fields) != len(headers)
            headers = fields if was_there else headers
        if was_there:
            stripped.append(slot)
    return StrippedHead(target, headers, tuple(stripped))


def _without_parameter(target: str, name: str) -> str | None:
    path, mark, text = target.partition("?")
    if not text:
        return target
    kept = query.other_parameters(text, name)
    if kept is None or len(kept) == len(text.split("&")):
        return None if kept is None else target
    return path + mark + "&".join(kept) if kept else path


def _without_cookie(headers: Headers, name: str) -> Headers | None:
    sent = cookie.sent_cookies(headers)
    kept = cookie.other_cookies(sent, name)
    if kept is None or len(kept) == len(sent):
        return None if kept is None else headers
    others = without_header(headers, cookie.COOKIE_HEADER)
    return (*others, (cookie.COOKIE_HEADER, "; ".join(kept))) if kept else others


def _two_readings(slot: Slot) -> CredentialRefusal:
    why = "A slot that the rules strip can be read in two ways in this request."
    return CredentialRefusal("request.malformed", why, None, slot)
