"""Whether two injections of one request would write to one slot.

The rules refuse such a pair when they are loaded. It is checked again because the second would
silently remove what the first has written, and which is second depends on nothing an operator sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from egress import alike
from egress.credentials import basic, cookie
from egress.types import Injection, Slot

_SPELLING: Final[dict[str, Callable[[str], str]]] = {
    "header": alike.header,
    "query": alike.parameter,
    "cookie": alike.cookie,
}
_COOKIE_HEADER = Slot("header", cookie.HEADER)


def slots_meet(needs: Sequence[Injection]) -> bool:
    """Say whether a slot of one need is, holds or lies in a slot of another."""
    taken: set[Slot] = set()
    for need in needs:
        own = {_home(slot) for slot in need.slots}
        if own & taken or _in_cookie_header(own, taken) or _in_cookie_header(taken, own):
            return True
        taken |= own
    return False


def _home(slot: Slot) -> Slot:
    if slot.kind == "basic":
        return basic.SLOT
    return Slot(slot.kind, _SPELLING[slot.kind](slot.name)) if slot.kind in _SPELLING else slot


def _in_cookie_header(some: set[Slot], others: set[Slot]) -> bool:
    return _COOKIE_HEADER in some and any(slot.kind == "cookie" for slot in others)
