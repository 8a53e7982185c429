"""Records of sandboxes that outlive their runtime: a private file for each, in the folder of the runtime.

Whoever may write pods can set labels, so a label proves nothing: the next runtime takes over a pod only if
its uid stands in a record. The label of kept pods is a random text of the folder, since other machines have
pods in the same namespace. Records of another cluster or namespace stay for a runtime that is opened there.

A file that is no record of this version is told, and its sandbox is not taken over.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from egress.cluster.api_server import ClusterApi
from egress.errors import UnreadableError, reason_of
from egress.kubernetes.pod_identity import PARAMETER_PREFIX, PROFILE_ANNOTATION
from egress.logger import EventLogger
from egress.private_file import read_or_create_private, read_private, write_atomically
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.kubernetes.claims import PoolClaim
from egress.runtime.kubernetes.pod_manifest import OWNER_LABEL, wished_annotations
from egress.runtime.kubernetes.pod_status import PodRecord
from egress.runtime.record_codec import decode_record, encode_record
from egress.runtime.spec import Spec, State

_log = EventLogger(__name__)

MAX_RECORD_BYTES: Final = 4 * 1024 * 1024
_FOLDER: Final = "kept"
_OWNER_FILE: Final = "kept.owner"
_OWNER: Final = re.compile(rb"[0-9a-f]{16}")
_OWNER_BYTES: Final = 8
_NAME_CHARS: Final = 32
_CURE: Final = "remove what is left with `egress down`"

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class KeptPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The facts from which a sandbox is taken over."""

    version: Literal[1] = 1
    cluster: _Text
    """The address of its API server."""
    namespace: _Text
    pod: _Text
    uid: _Text
    """Of its pod: a cluster gives none twice."""
    container: _Text
    """The id of its container: another one has other processes."""
    container_name: _Text
    scripts: _Text
    """The folder of the scripts of commands."""
    claim: Annotated[str, msgspec.Meta(max_length=1024)]
    """The uid of the claim that holds its pod; empty for a pod of its own."""
    state: State
    spec: Spec
    note: Annotated[str, msgspec.Meta(max_length=MAX_RECORD_BYTES)]
    """A text of the caller."""
    deadline: float | None
    """When the sandbox is removed, in seconds of the clock; None for never."""

    @property
    def name(self) -> str:
        return self.spec.name

    def is_over(self, now: float) -> bool:
        """Return whether its time has passed."""
        return self.deadline is not None and now >= self.deadline


class KeptPods:
    """The records of one runtime's folder, of one namespace. Its caller holds the kept lease."""

    def __init__(self, home: Path, api: ClusterApi) -> None:
        """Raises `UnreadableError` for a folder that another user may change."""
        self._folder = home / _FOLDER
        self.cluster = api.host_header
        self.namespace = api.namespace
        self.owner = _owner_of(home / _OWNER_FILE)
        """The label of the pods."""
        self.losses: list[str] = []
        """What did not come back, and why, for the operator."""

    def write(self, record: KeptPod) -> None:
        """Write a record in one step. Raises `EngineUnavailableError`."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._path(record.name), encode_record(record), replace=True)
        except OSError as error:
            raise EngineUnavailableError(
                f"cannot record a sandbox in {self._folder}: {reason_of(error)}", "free space there"
            ) from None

    def remove(self, name: str) -> None:
        """Remove a record: the sandbox is not taken over any more."""
        self._path(name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Return whether a sandbox has a record here, readable or not."""
        return self._path(name).exists()

    def records(self) -> Iterator[KeptPod]:
        """Yield the records of this namespace that can be read."""
        for path in self._files():
            with suppress(UnreadableError):
                record = self._read(path)
                if self._is_here(record):
                    yield record

    def lose(self, record: KeptPod, why: str) -> None:
        """Forget a sandbox that is gone."""
        _log.warning("sandbox.gone", sandbox=record.name, cause=why)
        self.losses.append(f"the sandbox {record.name} is gone: {why}")
        self.remove(record.name)

    def refuse(self, record: KeptPod, why: str) -> None:
        """Take note of a sandbox that has changed; its record stays, and so does its pod."""
        hint = "it was stopped; `egress down` removes it"
        _log.error("sandbox.not_taken_over", sandbox=record.name, cause=why, hint=hint)
        self.losses.append(f"the sandbox {record.name} was stopped and not taken over: {why}")

    def note_losses(self) -> None:
        """Tell the records from which no sandbox is taken over here."""
        places: Counter[str] = Counter()
        for path in self._files():
            try:
                record = self._read(path)
            except UnreadableError as error:
                self.losses.append(f"a sandbox was not taken over: {error.message}")
                continue
            if not self._is_here(record):
                places[f"the namespace {record.namespace} of {record.cluster}"] += 1
        for place, count in places.items():
            self.losses.append(f"sandboxes in {place} wait for an `egress up` there: {count}")

    def forget_all(self) -> None:
        """Remove the records of this namespace, and those that nobody can read."""
        for path in self._files():
            try:
                is_ours = self._is_here(self._read(path))
            except UnreadableError:
                is_ours = True
            if is_ours:
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _is_here(self, record: KeptPod) -> bool:
        return (record.cluster, record.namespace) == (self.cluster, self.namespace)

    def _read(self, path: Path) -> KeptPod:
        try:
            data = read_private(path, MAX_RECORD_BYTES + 1, _CURE)
            record = decode_record(data, KeptPod, MAX_RECORD_BYTES)
        except FileNotFoundError:
            raise UnreadableError(f"{path} is missing", _CURE) from None
        except ValueError as error:
            raise UnreadableError(f"{path} is not a record of a sandbox ({error})", _CURE) from None
        if path.name != _file_name(record.cluster, record.namespace, record.name):
            raise UnreadableError(f"{path} is the record of another sandbox", _CURE)
        return record

    def _path(self, name: str) -> Path:
        return self._folder / _file_name(self.cluster, self.namespace, name)


def difference(record: KeptPod, found: PodRecord, claim: PoolClaim | None, owner: str) -> str:
    """In what a pod is not the one that was left; empty if it is. Pure."""
    labels, notes = found.metadata.labels, found.metadata.annotations
    if record.claim:
        is_claimed = claim is not None and (claim.metadata.uid, claim.pod) == (record.claim, record.pod)
        if claim is None or not is_claimed:
            return "its claim has another pod, or is another one"
        # The pod of a pool has neither: the gateway reads the rights from the claim.
        labels, notes = claim.metadata.labels, claim.spec.additional_pod_metadata.annotations
    checks = (
        (labels.get(OWNER_LABEL) == owner, "its label egress/owner was changed"),
        (found.has_gate, "its gate or its label of sandboxes is gone"),
        (_wishes(notes) == wished_annotations(record.spec), "its profile or its parameters were changed"),
    )
    return next((reason for is_same, reason in checks if not is_same), "")


def _wishes(notes: Mapping[str, str]) -> dict[str, str]:
    """The annotations that choose rights: a pod has others of ours, such as its scripts."""
    return {
        name: text
        for name, text in notes.items()
        if name == PROFILE_ANNOTATION or name.startswith(PARAMETER_PREFIX)
    }


def _file_name(cluster: str, namespace: str, name: str) -> str:
    digest = hashlib.sha256(f"{cluster}\n{namespace}\n{name}".encode()).hexdigest()
    return f"{digest[:_NAME_CHARS]}.json"


def _owner_of(path: Path) -> str:
    made = read_or_create_private(path, lambda: secrets.token_hex(_OWNER_BYTES).encode(), 64, _CURE)
    if not _OWNER.fullmatch(made):
        raise UnreadableError(f"{path} is not the name of an owner", "remove it with the pods that it names")
    return made.decode()
