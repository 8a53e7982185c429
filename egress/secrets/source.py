"""From a reference in the rules to the thing that can be asked for the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from egress.errors import UnreadableError
from egress.rules.decide.policy import SecretSpec
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import CommandSecretSource
from egress.secrets.environment_capture import CapturedEnvironment
from egress.secrets.file import FileSecretSource
from egress.secrets.source_value import ENDLESS_LIFETIME, SourceValue, ValueLifetime
from egress.types import Place


class SecretSource(Protocol):
    """Something that can be asked for a value, again and again."""

    def fetch(self) -> SourceValue:
        """Return the value as it is now; may block. Raises UnreadableError, never with a value in it."""

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        """For how long a value may be used; `ttl` is what the rules say."""

    def stop(self) -> None:
        """Break off a look that runs in another thread, where that can be done."""


@dataclass(frozen=True, slots=True)
class UnresolvableSecret:
    """A secret of the rules that cannot be had here, whatever its source holds."""

    name: str
    place: Place
    cause: str
    cure: str


@dataclass(frozen=True, slots=True)
class UnavailableSecret:
    """A secret that cannot be used just now, and why."""

    name: str
    scheme: str
    cause: str
    cure: str


def unresolvable_secrets(
    specs: Iterable[SecretSpec], *, container: bool = False
) -> tuple[UnresolvableSecret, ...]:
    """List the secrets that this version, or this place, cannot resolve; for a start to say so."""
    faults = ((spec, scheme_fault(spec.scheme, container=container)) for spec in specs)
    return tuple(UnresolvableSecret(spec.name, spec.place, *fault) for spec, fault in faults if fault)


def scheme_fault(scheme: str, *, container: bool) -> tuple[str, str] | None:
    """Return why a scheme cannot be resolved and what to do instead, or None."""
    if scheme == "env" and container:
        return (
            "`env:` is refused in a container, whose environment everybody can inspect",
            "mount the secret and name it with `file:`",
        )
    if scheme not in {"env", "file", "command"}:
        return f"this version knows no source `{scheme}:`", "use `env:`, `file:` or `command:`"
    return None


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Makes sources, with the parts of this process that they need."""

    captured: CapturedEnvironment
    surroundings: ChildEnvironment
    container: bool
    timeout: float

    def of(self, spec: SecretSpec) -> SecretSource:
        """Return the source of a secret; one that cannot exist says why when it is asked."""
        fault = scheme_fault(spec.scheme, container=self.container)
        if fault:
            return AbsentSource(*fault)
        if spec.scheme == "command":
            return CommandSecretSource(spec.reference, self.surroundings, self.timeout)
        if spec.scheme == "file":
            return FileSecretSource(spec.reference[0], self.captured.environ)
        return VariableSecretSource(spec.reference[0], self.captured.values)


class AbsentSource:
    """Stands where there can be no source."""

    __slots__ = ("_cause", "_cure")

    def __init__(self, cause: str, cure: str) -> None:
        self._cause = cause
        self._cure = cure

    def fetch(self) -> SourceValue:
        raise UnreadableError(self._cause, self._cure)

    def lifetime(self, ttl: int | None) -> ValueLifetime:  # noqa: ARG002 - the contract of a source
        return ValueLifetime(0, 0)

    def stop(self) -> None:
        """Do nothing: a look takes no time."""


# A secret from an environment variable, captured once when the process started (see `environ`).
class VariableSecretSource:
    """One variable of the start environment; it cannot change, so `ttl` has no meaning for it."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, SourceValue]) -> None:
        self._name = name
        self._values = values

    def lifetime(self, ttl: int | None) -> ValueLifetime:  # noqa: ARG002 - the contract of a source
        return ENDLESS_LIFETIME

    def fetch(self) -> SourceValue:
        value = self._values.get(self._name)
        if value is None:
            raise UnreadableError(
                f"the variable {self._name} was not set, or not named by the rules, when Egress started",
                "set it and start again; for a value that changes use `file:` or `command:`",
            )
        return value

    def stop(self) -> None:
        """Do nothing: a look takes no time."""
