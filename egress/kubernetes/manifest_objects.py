"""The objects in a file of manifests: those of a List are taken out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from egress.kubernetes.manifest_node import ManifestNode, ShapeFault
from egress.kubernetes.manifest_text import ManifestDocument, ManifestText
from egress.types import Place

MAX_OBJECTS: Final = 4096
MAX_LIST_DEPTH: Final = 4
"""A List in a List is legal and rare."""


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object: its kind and name, and the document that it stands in."""

    document: ManifestDocument
    node: ManifestNode
    api_version: str
    kind: str
    name: str
    namespace: str
    """Empty if neither the object nor the command line names one."""

    @property
    def group(self) -> str:
        """The API group: empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"

    def place(self, node: ManifestNode) -> Place:
        """Return the place of a node in its file."""
        return self.document.source.place(node.path)


def objects_of(text: ManifestText, namespace: str) -> Iterator[ManifestObject]:
    """Return the objects of a file; `namespace` is for those that name none."""
    for document in text.documents:
        yield from _unpacked(document, ManifestNode(document.value, (), []), namespace, 1)


def _unpacked(
    document: ManifestDocument, root: ManifestNode, namespace: str, depth: int
) -> Iterator[ManifestObject]:
    # Each object has a list of faults of its own, so that a fault is told once and at its object.
    node = ManifestNode(root.value, root.path, [])
    kind, version = node.at("kind").text(), node.at("apiVersion").text()
    # A list of one kind, such as PodList, has the same form.
    if kind.endswith("List") and isinstance(node.at("items").value, list) and depth <= MAX_LIST_DEPTH:
        for item in node.at("items").items():
            yield from _unpacked(document, item, namespace, depth + 1)
        return
    for field, text in (("kind", kind), ("apiVersion", version)):
        if not text and not node.faults:
            node.faults.append(ShapeFault((*node.path, field), "text"))
    metadata = node.at("metadata")
    is_namespace = (kind, version) == ("Namespace", "v1")
    yield ManifestObject(
        document,
        node,
        version,
        kind,
        metadata.at("name").text() or metadata.at("generateName").text(),
        "" if is_namespace else metadata.at("namespace").text() or namespace,
    )
