"""Whether what was written into a request could be found again in its answer.

A search that misses the very value that was just sent would miss it in the answer too; so it is tried on
the head that goes up, slot by slot. Must not search anything else: a value elsewhere is the sandbox's own.
"""

from __future__ import annotations

from typing import Final

from egress.scrub import Needles
from egress.types import Head, Slot

_HEADER_OF: Final = {"cookie": "cookie", "basic": "authorization"}


def finds(needles: Needles | None, written: tuple[tuple[str, Slot], ...], head: Head) -> bool:
    """Whether the needles find every secret in the slot of the head to be sent where it was written."""
    for secret, slot in written:
        text = "\n".join(_slot_texts(slot, head))
        if needles is None or not needles.finds(secret, text.encode("latin-1", "replace")):
            return False
    return True


def _slot_texts(slot: Slot, head: Head) -> list[str]:
    """What stands in the head where such a slot is."""
    if slot.kind in ("path", "query"):
        return [head.target]
    name = slot.name.lower() if slot.kind == "header" else _HEADER_OF[slot.kind]
    return [value for each, value in head.headers if each == name]
