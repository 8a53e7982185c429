"""The life of a sandbox: owner, beginning and time limits. Frozen values, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Final, Literal

from egress.runtime.argument_types import check_number, check_text
from egress.runtime.errors import SpecError
from egress.runtime.spec import NAME_PATTERN, Spec

_MAX_SECONDS: Final = 10.0**9
_MAX_OWNER_LENGTH: Final = 200

OnIdle = Literal["delete", "sleep"]
ON_IDLE: Final[tuple[OnIdle, ...]] = ("delete", "sleep")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLifetime:
    """Owner, beginning and time limits of one sandbox. Raises `SpecError` for impossible values."""

    timeout: float | None = None
    """Seconds from its creation until it is removed."""
    idle_timeout: float | None = None
    """Seconds without a command, a copied file or a preview request until `on_idle` happens."""
    on_idle: OnIdle = "delete"
    """`sleep` keeps its files: it is stopped, and the next use starts it."""
    owner: str = ""
    """Who created the sandbox. Another owner cannot get it by its name."""
    snapshot: str = ""
    """The snapshot that the sandbox begins with; empty for none."""

    def __post_init__(self) -> None:
        for name in ("timeout", "idle_timeout"):
            value = getattr(self, name)
            if value is None:
                continue
            check_number(name, value)
            if not 0 < value <= _MAX_SECONDS:
                raise SpecError(f"{name} is out of range", "give a number of seconds above 0")
        check_text("on_idle", self.on_idle)
        if self.on_idle not in ON_IDLE:
            raise SpecError("on_idle is not delete or sleep", "use one of the two")
        if self.on_idle == "sleep" and self.idle_timeout is None:
            raise SpecError("on_idle is sleep, without an idle_timeout", "give idle_timeout as well")
        if self.snapshot:
            check_snapshot_name(self.snapshot)
        if not self.owner.isprintable() or len(self.owner) > _MAX_OWNER_LENGTH:
            raise SpecError(
                "owner is not a short text", f"use at most {_MAX_OWNER_LENGTH} printable characters"
            )


def check_snapshot_name(name: str) -> None:
    """Refuse a name that is unsafe as that of a folder or an image. Raises `SpecError`."""
    check_text("snapshot", name)
    if not NAME_PATTERN.fullmatch(name):
        raise SpecError(
            "snapshot is not a valid name for a snapshot",
            "use up to 63 lower-case letters, digits, dots, - and _, with a letter or digit at both ends",
        )


NO_TIME_LIMIT: Final = SandboxLifetime()


def check_on_idle(spec: Spec, terms: SandboxLifetime) -> None:
    """Refuse to let a sandbox sleep that would lose its files. Raises `SpecError`."""
    if terms.on_idle == "sleep" and spec.limits.disk_mib is not None:
        raise SpecError(
            "on_idle is sleep, and its limited disk lies in memory: sleep would lose its files",
            "omit the limit of its disk, or let it be deleted",
        )


def changed_lifetime(
    terms: SandboxLifetime, changes: Mapping[str, float | None], age: float
) -> SandboxLifetime:
    """Return a lifetime with other limits; a new `timeout` counts from now, `age` seconds after the creation.

    Raises `SpecError` for impossible values.
    """
    # As given first, so that an error is about the number that was asked for.
    made = replace(
        terms,
        timeout=changes.get("timeout", terms.timeout),
        idle_timeout=changes.get("idle_timeout", terms.idle_timeout),
    )
    timeout = changes.get("timeout")
    return made if timeout is None else replace(made, timeout=age + timeout)


def differences(one: Spec, other: Spec) -> tuple[str, ...]:
    """The names of the fields in which two sandboxes differ."""
    return tuple(_differing_fields("", one, other))


def lifetime_differences(one: SandboxLifetime, other: SandboxLifetime) -> tuple[str, ...]:
    """The names of the fields in which two lifetimes differ."""
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
