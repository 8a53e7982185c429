"""Make the source of a secret from its reference in the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from egress.errors import UnreadableError
from egress.rules.decide.policy import SecretSpec
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.cluster_secret import ClusterSecrets, ClusterSecretSource
from egress.secrets.command import CommandSecretSource
from egress.secrets.environment_capture import CapturedEnvironment
from egress.secrets.file import FileSecretSource
from egress.secrets.source_value import ENDLESS_LIFETIME, SecretSource, SourceValue, ValueLifetime
from egress.types import Place


@dataclass(frozen=True, slots=True)
class UnresolvableSecret:
    """A secret of the rules that this version or this environment can never resolve."""

    name: str
    place: Place
    cause: str
    cure: str


@dataclass(frozen=True, slots=True)
class UnavailableSecret:
    """A secret that cannot be used at present, and the cause."""

    name: str
    scheme: str
    cause: str
    cure: str


def unresolvable_secrets(
    specs: Iterable[SecretSpec], *, container: bool = False
) -> tuple[UnresolvableSecret, ...]:
    """Return the secrets that this version, or this environment, cannot resolve; reported at the start."""
    faults = ((spec, scheme_fault(spec.scheme, container=container)) for spec in specs)
    return tuple(UnresolvableSecret(spec.name, spec.place, *fault) for spec, fault in faults if fault)


def scheme_fault(scheme: str, *, container: bool) -> tuple[str, str] | None:
    """Return why a scheme cannot be resolved and the cure, or None."""
    # Anybody who reaches the engine can read a container's environment.
    if scheme == "env" and container:
        return (
            "`env:` is refused in a container, whose environment everybody can inspect",
            "mount the secret and name it with `file:`",
        )
    if scheme not in {"env", "file", "command", "k8s"}:
        return f"unknown kind of source `{scheme}:`", "use `env:`, `file:`, `command:` or `k8s:`"
    return None


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Makes sources, with the parts of this process that they need."""

    captured: CapturedEnvironment
    environment: ChildEnvironment
    container: bool
    timeout: float
    cluster: ClusterSecrets | None = None
    """The Secrets of the cluster; None where this process is no pod."""

    def of(self, spec: SecretSpec) -> SecretSource:
        """Return the source of a secret; an impossible source says why when it is asked."""
        fault = scheme_fault(spec.scheme, container=self.container)
        # An impossible source is still a source, so that the rest of the rules keep working.
        if fault:
            return AbsentSource(*fault)
        if spec.scheme == "command":
            return CommandSecretSource(spec.reference, self.environment, self.timeout)
        if spec.scheme == "k8s":
            if self.cluster is None:
                return AbsentSource(
                    "this process is no pod of a cluster", "run the proxy as a pod, or use `file:`"
                )
            return ClusterSecretSource(self.cluster, *spec.reference)
        if spec.scheme == "file":
            return FileSecretSource(spec.reference[0], self.captured.environ)
        return VariableSecretSource(spec.reference[0], self.captured.values)


class AbsentSource:
    """A source that cannot exist here: every fetch fails with the cause."""

    __slots__ = ("_cause", "_cure")

    def __init__(self, cause: str, cure: str) -> None:
        self._cause = cause
        self._cure = cure

    @property
    def mints(self) -> bool:
        return False

    def fetch(self) -> SourceValue:
        raise UnreadableError(self._cause, self._cure)

    def lifetime(self, ttl: int | None) -> ValueLifetime:  # noqa: ARG002 - the contract of a source
        return ValueLifetime(0, 0)

    def stop(self) -> None:
        """Do nothing: a fetch takes no time."""


class VariableSecretSource:
    """An environment variable, captured once at the start; it cannot change, so `ttl` has no meaning."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, SourceValue]) -> None:
        self._name = name
        self._values = values

    @property
    def mints(self) -> bool:
        return False

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
        """Do nothing: a fetch takes no time."""
