"""The status of a pod: whether its sandbox lives, and why it does not become ready. Pure.

The kubelet writes the texts; of the gate's own message it copies the end. They go into errors as one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import msgspec

from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.pod_injection import GATE_NAME

CONTAINER_NAME: Final = "sandbox"
_MAX_TEXT_LENGTH: Final = 600
_IMAGE_REASONS: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ErrImageNotFound"}
)
_CREATION_REASONS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
)

DEFAULT_LABELS: Final = PodLabels()

type TroubleKind = Literal["gate", "gate-image", "image", "shell", "container", "pod"]


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """Why a pod will not become ready."""

    kind: TroubleKind
    text: str


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _ContainerState(msgspec.Struct):
    running: dict[str, object] | None = None
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    state: _ContainerState = msgspec.field(default_factory=_ContainerState)
    last_state: _ContainerState = msgspec.field(default_factory=_ContainerState)
    container_id: str = msgspec.field(name="containerID", default="")


class _Condition(msgspec.Struct):
    type: str
    status: str
    message: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    creation_timestamp: datetime
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[_Condition, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Named(msgspec.Struct):
    name: str


class _InitContainer(msgspec.Struct):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: tuple[_Named, ...] = ()
    init_containers: tuple[_InitContainer, ...] = ()


class PodRecord(msgspec.Struct):
    """A pod, as far as a sandbox depends on it."""

    metadata: _Metadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_gone(self) -> bool:
        """Return whether the pod has ended, or is being removed."""
        return self.metadata.deletion_timestamp is not None or self.status.phase in ("Failed", "Succeeded")

    @property
    def container(self) -> str:
        """The id of the container that runs; empty if none does."""
        found = self._main
        return found.container_id if found is not None and found.state.running is not None else ""

    @property
    def exit_code(self) -> int | None:
        """How the container ended that ran last; None if none has ended."""
        found = self._main
        ended = None if found is None else found.state.terminated or found.last_state.terminated
        return None if ended is None else ended.exit_code

    @property
    def has_gate(self) -> bool:
        """Return whether its first init container is a gate, and it has the label of sandboxes."""
        key, value = DEFAULT_LABELS.sandbox
        first = next(iter(self.spec.init_containers), _InitContainer())
        words = (*(first.command or ("egress",)), *first.args)
        return self.metadata.labels.get(key) == value and words[:2] == ("egress", "gate")

    @property
    def container_name(self) -> str:
        """The container of commands: our own, or the first one of somebody's template."""
        names = [each.name for each in self.spec.containers]
        return CONTAINER_NAME if CONTAINER_NAME in names or not names else names[0]

    @property
    def _main(self) -> _ContainerStatus | None:
        name = self.container_name
        return next((each for each in self.status.container_statuses if each.name == name), None)

    def trouble(self) -> PodTrouble | None:
        """Return why the pod will not become ready; None while it still may."""
        for each in self.status.init_container_statuses:
            if (found := _of_init(each)) is not None:
                return found
        if (main := self._main) is not None and (found := _of_main(main)) is not None:
            return found
        if self.is_gone:
            return PodTrouble("pod", _one_line(self.status.message or self.status.reason or "it was removed"))
        return None

    @property
    def delay(self) -> str:
        """Why the pod is not ready yet, as far as that is known."""
        found = [each.message for each in self.status.conditions if each.status != "True" and each.message]
        waits = [
            f"{each.name}: {each.state.waiting.message or each.state.waiting.reason}"
            for each in (*self.status.init_container_statuses, *self.status.container_statuses)
            if each.state.waiting is not None and each.state.waiting.reason != "PodInitializing"
        ]
        return _one_line("; ".join([*found[:1], *waits]) or self.status.phase)


def read_pod(answer: object) -> PodRecord:
    """Read a pod. Raises `msgspec.ValidationError`."""
    return msgspec.convert(answer, PodRecord)


def _of_init(found: _ContainerStatus) -> PodTrouble | None:
    ended = found.state.terminated or found.last_state.terminated
    waiting = found.state.waiting
    if ended is not None and ended.exit_code:
        kind: TroubleKind = "gate" if found.name == GATE_NAME else "pod"
        return PodTrouble(kind, _one_line(ended.message or f"it exited with status {ended.exit_code}"))
    if waiting is not None and waiting.reason in _IMAGE_REASONS:
        return PodTrouble("gate-image", _one_line(waiting.message or waiting.reason))
    if waiting is not None and waiting.reason in _CREATION_REASONS:
        return PodTrouble("pod", _one_line(waiting.message or waiting.reason))
    return None


def _of_main(found: _ContainerStatus) -> PodTrouble | None:
    waiting, ended = found.state.waiting, found.state.terminated or found.last_state.terminated
    if waiting is not None and waiting.reason in _IMAGE_REASONS:
        return PodTrouble("image", _one_line(waiting.message or waiting.reason))
    text = ended.message if ended is not None else waiting.message if waiting is not None else ""
    has_failed = ended is not None or (waiting is not None and waiting.reason in _CREATION_REASONS)
    if has_failed and "/bin/sh" in text:
        return PodTrouble("shell", _one_line(text))
    return PodTrouble("container", _one_line(text or "its first process ended")) if has_failed else None


def _one_line(text: str) -> str:
    shown = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return shown[-_MAX_TEXT_LENGTH:]
