"""What a sandbox of namespaces is not kept from, in sentences for its operator. Pure."""

from __future__ import annotations

from typing import Final

KERNEL: Final = (
    "they share this machine's kernel and its /usr, read-only, and can fill its disk if not bounded"
)
_WORDS: Final = {
    "memory": "memory is bounded for each process alone",
    "cpu": "processor time is not",
}


def told(bounded: frozenset[str], *, has_rights: bool, is_root: bool) -> tuple[str, ...]:
    """All of them, the one that always holds first. `bounded`: what control groups can bound here."""
    found = [KERNEL]
    missing = [_WORDS[kind] for kind in ("memory", "cpu") if kind not in bounded]
    if missing:
        found.append(f"no control group can be written here: {', '.join(missing)}")
    if not has_rights:
        found.append("they run as your own user, and are kept apart by namespaces alone")
        if is_root:
            found.append("this is root without its rights: run it as somebody")
    return tuple(found)
