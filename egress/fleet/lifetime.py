"""Under which terms a sandbox is there: whose it is, and for how long. Frozen values, checked when made."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from egress.runtime.errors import SpecError
from egress.runtime.spec import Spec

_MAX_SECONDS: Final = 10.0**9
_MAX_OWNER_LENGTH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLifetime:
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
            if value is not None and (isinstance(value, bool) or not 0 < value <= _MAX_SECONDS):
                raise SpecError(f"{name} is out of bounds", "give seconds, more than 0")
        if not self.owner.isprintable() or len(self.owner) > _MAX_OWNER_LENGTH:
            raise SpecError("owner is no short text", "keep it printable")


NO_TIME_LIMIT: Final = SandboxLifetime()


def differences(one: Spec, other: Spec) -> tuple[str, ...]:
    """The fields in which two sandboxes differ, by name."""
    return tuple(_differing_fields("", one, other))


def lifetime_differences(one: SandboxLifetime, other: SandboxLifetime) -> tuple[str, ...]:
    """The terms in which two sandboxes differ, by name."""
    return tuple(_differing_fields("", one, other))


def _differing_fields(above: str, one: object, other: object) -> list[str]:
    found = []
    for field in fields(one) if is_dataclass(one) else ():
        a, b = getattr(one, field.name), getattr(other, field.name)
        if a == b:
            continue
        inner = _differing_fields(f"{field.name}.", a, b) if is_dataclass(a) and is_dataclass(b) else []
        found += [above + name for name in inner or [field.name]]
    return found
