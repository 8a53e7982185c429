"""From a reference in the rules to the thing that can be asked for the value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from egress.errors import UnreadableError
from egress.rules.policy import SecretSpec
from egress.secrets.command import CommandSource
from egress.secrets.environ import Captured
from egress.secrets.file import FileSource
from egress.secrets.lifetime import Lifetime
from egress.secrets.surroundings import Surroundings
from egress.secrets.value import Value
from egress.secrets.variable import VariableSource
from egress.types import Place

LATER = frozenset({"store", "keyring", "vault", "aws-sm"})
"""Schemes of the rule language that this version does not resolve."""


class Source(Protocol):
    """Something that can be asked for a value, again and again."""

    def look(self) -> Value:
        """Return the value as it is now; may block. Raises UnreadableError, never with a value in it."""

    def lifetime(self, ttl: int | None) -> Lifetime:
        """For how long a value may be used; `ttl` is what the rules say."""

    def stop(self) -> None:
        """Break off a look that runs in another thread, where that can be done."""


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """A secret of the rules that cannot be had here, whatever its source holds."""

    name: str
    place: Place
    cause: str
    cure: str


@dataclass(frozen=True, slots=True)
class Lacking:
    """A secret that cannot be used just now, and why."""

    name: str
    scheme: str
    cause: str
    cure: str


def unresolvable(specs: Iterable[SecretSpec], *, container: bool = False) -> tuple[Unresolvable, ...]:
    """List the secrets that this version, or this place, cannot resolve; for a start to say so."""
    faults = ((spec, fault_of(spec.scheme, container=container)) for spec in specs)
    return tuple(Unresolvable(spec.name, spec.place, *fault) for spec, fault in faults if fault)


def fault_of(scheme: str, *, container: bool) -> tuple[str, str] | None:
    """Return why a scheme cannot be resolved and what to do instead, or None."""
    if scheme in LATER:
        return (
            f"`{scheme}:` is not resolved by this version",
            "use `command:` with the tool that reads it, or `file:`",
        )
    if scheme == "env" and container:
        return (
            "`env:` is refused in a container, whose environment everybody can inspect",
            "mount the secret and name it with `file:`",
        )
    if scheme not in {"env", "file", "command"}:
        return f"this version knows no source `{scheme}:`", "use `env:`, `file:` or `command:`"
    return None


@dataclass(frozen=True, slots=True)
class Sources:
    """Makes sources, with the parts of this process that they need."""

    captured: Captured
    surroundings: Surroundings
    container: bool
    timeout: float

    def of(self, spec: SecretSpec) -> Source:
        """Return the source of a secret; one that cannot exist says why when it is asked."""
        fault = fault_of(spec.scheme, container=self.container)
        if fault:
            return Missing(*fault)
        if spec.scheme == "command":
            return CommandSource(spec.reference, self.surroundings, self.timeout)
        if spec.scheme == "file":
            return FileSource(spec.reference[0], self.captured.environ)
        return VariableSource(spec.reference[0], self.captured.values)


class Missing:
    """Stands where there can be no source."""

    __slots__ = ("_cause", "_cure")

    def __init__(self, cause: str, cure: str) -> None:
        self._cause = cause
        self._cure = cure

    def look(self) -> Value:
        raise UnreadableError(self._cause, self._cure)

    def lifetime(self, ttl: int | None) -> Lifetime:  # noqa: ARG002 - the contract of a source
        return Lifetime(0, 0)

    def stop(self) -> None:
        """Do nothing: a look takes no time."""
