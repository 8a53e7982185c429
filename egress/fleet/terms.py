"""Under which terms a sandbox is there: whose it is, and for how long. Frozen values, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from egress.runtime.errors import SpecError
from egress.runtime.spec import Spec

_LONGEST: Final = 10.0**9
_LONGEST_OWNER: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Raises `SpecError` for those that cannot be."""

    timeout: float | None = None
    """Seconds from its making after which it is removed."""
    idle_timeout: float | None = None
    """Seconds after which it is removed when nothing was done with it: no command ran, no file came or went,
    nobody looked at one of its ports."""
    owner: str = ""
    """Who asked for it. Another owner does not get it by its name."""

    def __post_init__(self) -> None:
        for name in ("timeout", "idle_timeout"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not 0 < value <= _LONGEST):
                raise SpecError(f"{name} is out of bounds", "give seconds, more than 0")
        if not self.owner.isprintable() or len(self.owner) > _LONGEST_OWNER:
            raise SpecError("owner is no short text", "keep it printable")


FOREVER: Final = Terms()


def differences(one: Spec, other: Spec) -> tuple[str, ...]:
    """The fields in which two sandboxes differ, by name."""
    return tuple(_differing("", one, other))


def term_differences(one: Terms, other: Terms) -> tuple[str, ...]:
    """The terms in which two sandboxes differ, by name."""
    return tuple(_differing("", one, other))


def _differing(above: str, one: object, other: object) -> list[str]:
    found = []
    for field in fields(one) if is_dataclass(one) else ():
        a, b = getattr(one, field.name), getattr(other, field.name)
        if a == b:
            continue
        inner = _differing(f"{field.name}.", a, b) if is_dataclass(a) and is_dataclass(b) else []
        found += [above + name for name in inner or [field.name]]
    return found
