"""Read what the API server sends of pods, sandboxes, claims and templates: lists, and the events of a watch.

Only the fields are read that say whose an address is. An object that cannot be read is an error of its whole
list or watch, because a pod that is left out could be the second one at an address.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from egress.errors import ContentError
from egress.kubernetes.pod_identity import Annotations, annotations_for_egress, wishes_for_egress
from egress.kubernetes.pod_shapes import AGENTS_GROUP, SANDBOX_LABEL

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""An object in etcd has at most 1.5 MiB; its JSON is somewhat longer."""
MAX_LISTED_OBJECTS: Final = 100_000

TEMPLATE_ANNOTATION: Final = "agents.x-k8s.io/sandbox-template-ref"

type Address = IPv4Address | IPv6Address

_VERSION = re.compile(r"0|[1-9][0-9]{0,18}")


class WatchKind(StrEnum):
    """The collections that are watched, by their names in URLs."""

    PODS = "pods"
    SANDBOXES = "sandboxes"
    CLAIMS = "sandboxclaims"
    TEMPLATES = "sandboxtemplates"


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of an object, as far as it says what the object is and to whom it belongs."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        # Others are often many kilobytes, and thousands of pods are kept.
        key = SANDBOX_LABEL[0]
        force_setattr(self, "labels", {key: self.labels[key]} if key in self.labels else {})
        template = self.annotations.get(TEMPLATE_ANNOTATION)
        named = {} if template is None else {TEMPLATE_ANNOTATION: template}
        force_setattr(self, "annotations", dict(annotations_for_egress(self.annotations)) | named)

    @property
    def template(self) -> str:
        """The template that a sandbox was made from, as its controller has recorded it."""
        return self.annotations.get(TEMPLATE_ANNOTATION, "")

    @property
    def is_workload(self) -> bool:
        """Whether the label says that the object is a sandbox."""
        key, value = SANDBOX_LABEL
        return self.labels.get(key) == value

    @property
    def belongs_to_agent_sandbox(self) -> bool:
        """Whether any owner is a sandbox, or says that it is."""
        return any((each.group, each.kind) == (AGENTS_GROUP, "Sandbox") for each in self.owner_references)

    @property
    def version(self) -> int:
        """The resource version as a number, which grows with every change of a collection."""
        return version_number(self.resource_version)

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages the object; None if there is none, or if several say so."""
        found = [owner for owner in self.owner_references if owner.controller]
        return found[0] if len(found) == 1 else None


class _Ip(msgspec.Struct, frozen=True):
    ip: str


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    host_network: bool = False


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[_Ip, ...] = msgspec.field(name="podIPs", default=())
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: tuple[_Ip, ...] = msgspec.field(name="hostIPs", default=())


class WatchedPod(msgspec.Struct, frozen=True, dict=True):
    metadata: ObjectMeta
    spec: _PodSpec
    status: _PodStatus = _PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended; its status keeps an address that may be another pod's by now."""
        return self.status.phase in {"Succeeded", "Failed"}

    # Read once: each change of the pod, of its sandbox or of its claim asks for them several times.
    @cached_property
    def addresses(self) -> frozenset[Address]:
        """The addresses of both families."""
        return _addresses(self.status.pod_ip, self.status.pod_ips)

    @cached_property
    def node_addresses(self) -> frozenset[Address]:
        return _addresses(self.status.host_ip, self.status.host_ips)


class WatchedSandbox(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class _PodMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "annotations", dict(annotations_for_egress(self.annotations)))


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    additional_pod_metadata: _PodMetadata = _PodMetadata()


class _NamedSandbox(msgspec.Struct, frozen=True):
    name: str = ""


class _ClaimStatus(msgspec.Struct, frozen=True):
    sandbox: _NamedSandbox = _NamedSandbox()


class WatchedClaim(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def annotations(self) -> Annotations:
        """The wishes of the claim, as it was written. The pod's own annotations follow some time later."""
        return wishes_for_egress(self.spec.additional_pod_metadata.annotations)

    @property
    def sandbox_name(self) -> str:
        """The sandbox that the claim has got; empty until it has one."""
        return self.status.sandbox.name


class _PodTemplate(msgspec.Struct, frozen=True):
    metadata: _PodMetadata = _PodMetadata()


class _TemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    pod_template: _PodTemplate = _PodTemplate()


class WatchedTemplate(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _TemplateSpec = _TemplateSpec()

    @property
    def annotations(self) -> Annotations:
        """What the owner of the template says about its pods."""
        return wishes_for_egress(self.spec.pod_template.metadata.annotations)


type WatchedObject = WatchedPod | WatchedSandbox | WatchedClaim | WatchedTemplate


class WatchEvent(msgspec.Struct, frozen=True):
    """One change of a collection; a bookmark and an error have no object."""

    type: EventType
    kind: WatchKind
    object: WatchedObject | None = None
    version: int = 0
    """The resource version that a bookmark brings."""
    code: int = 0
    """The status of an error: 410 if the version to watch from is too old."""


class WatchedList(msgspec.Struct, frozen=True):
    """A collection at one resource version."""

    kind: WatchKind
    version: int
    objects: tuple[WatchedObject, ...]
    more: str = ""
    """The token for the next page; empty on the last one."""


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    next_page: str = msgspec.field(name="continue", default="")


class _RawEvent(msgspec.Struct, frozen=True):
    type: EventType
    object: msgspec.Raw


class _RawList(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw]


class _BookmarkObject(msgspec.Struct, frozen=True):
    metadata: _ListMeta


class _ErrorObject(msgspec.Struct, frozen=True):
    code: int = 0


_TYPES: Final[dict[WatchKind, type[WatchedPod | WatchedSandbox | WatchedClaim | WatchedTemplate]]] = {
    WatchKind.PODS: WatchedPod,
    WatchKind.SANDBOXES: WatchedSandbox,
    WatchKind.CLAIMS: WatchedClaim,
    WatchKind.TEMPLATES: WatchedTemplate,
}


def read_event(kind: WatchKind, data: bytes) -> WatchEvent:
    """Read one line of a watch. Raises `ContentError`; the watch cannot be trusted then."""
    if len(data) > MAX_EVENT_BYTES:
        raise _unreadable(kind, f"an event has more than {MAX_EVENT_BYTES} bytes")
    try:
        raw = msgspec.json.decode(data, type=_RawEvent)
        if raw.type is EventType.ERROR:
            return WatchEvent(raw.type, kind, code=msgspec.json.decode(raw.object, type=_ErrorObject).code)
        if raw.type is EventType.BOOKMARK:
            bookmark = msgspec.json.decode(raw.object, type=_BookmarkObject)
            return WatchEvent(raw.type, kind, version=version_number(bookmark.metadata.resource_version))
        return WatchEvent(raw.type, kind, _read_object(kind, raw.object))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(kind, type(error).__name__) from None


def read_list(kind: WatchKind, data: bytes) -> WatchedList:
    """Read a whole collection. Raises `ContentError`."""
    try:
        raw = msgspec.json.decode(data, type=_RawList)
        if len(raw.items) > MAX_LISTED_OBJECTS:
            raise _unreadable(kind, f"more than {MAX_LISTED_OBJECTS} objects")
        objects = tuple(_read_object(kind, item) for item in raw.items)
        version = version_number(raw.metadata.resource_version)
        return WatchedList(kind, version, objects, raw.metadata.next_page)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(kind, type(error).__name__) from None


def _read_object(kind: WatchKind, data: msgspec.Raw) -> WatchedObject:
    found = msgspec.json.decode(data, type=_TYPES[kind])
    # Read now, so that a broken object is found here and not when somebody connects.
    if not found.metadata.uid or found.metadata.version < 0:
        raise _unreadable(kind, "an object has no UID")
    if isinstance(found, WatchedPod):
        _ = found.addresses, found.node_addresses
    return found


def version_number(text: str) -> int:
    """Read a resource version. Raises `ContentError` if it is no number."""
    if not _VERSION.fullmatch(text):
        raise ContentError(
            "a resource version is no number", "the order of events cannot be told; use another API server"
        )
    return int(text)


def read_address(text: str) -> Address:
    """Read an address; IPv4 in IPv6 is IPv4. Raises `ValueError`."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ValueError("an address with a zone is not the address of a pod")
        return address.ipv4_mapped or address
    return address


def _addresses(first: str, others: tuple[_Ip, ...]) -> frozenset[Address]:
    texts = {first, *(each.ip for each in others)} - {""}
    try:
        return frozenset(map(read_address, texts))
    except ValueError:
        raise ContentError("a pod has an address that is none", "look at its status") from None


def _unreadable(kind: WatchKind, reason: str) -> ContentError:
    return ContentError(f"the API server's {kind} cannot be read: {reason}", "list them anew")
