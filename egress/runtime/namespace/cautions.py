"""What a sandbox of namespaces is not kept from, in sentences for its operator. Pure."""

from __future__ import annotations

from typing import Final

KERNEL: Final = (
    "a sandbox of namespaces shares this machine's kernel and sees its programs in /usr, read-only: a hole "
    "in the kernel is a hole in the wall, and what it writes to the disk is not bounded"
)
_WORDS: Final = {
    "memory": "memory is bounded for each process and not for all together",
    "cpu": "processor time is not bounded",
}


def told(bounded: frozenset[str], *, has_rights: bool, is_root: bool) -> tuple[str, ...]:
    """All of them, the one that always holds first. `bounded`: what control groups can bound here."""
    found = [KERNEL]
    missing = [_WORDS[kind] for kind in ("memory", "cpu") if kind not in bounded]
    if missing:
        found.append(f"no control group can be written here, so {' and '.join(missing)}")
    if not has_rights:
        found.append(
            "commands run as your own user, with your groups, and so does what holds the sandbox: they are "
            "kept apart by namespaces alone, and not by users as well"
        )
        if is_root:
            found.append(
                "this is root without its rights: a sandbox reads of /usr what root may; run it as somebody"
            )
    return tuple(found)
