"""Objects of a file: those of a List count like others."""

from __future__ import annotations

from egress.kubernetes.manifest_objects import ManifestObject, objects_of
from egress.kubernetes.manifest_text import read_manifests


def objects(text: str, namespace: str = "") -> list[ManifestObject]:
    return list(objects_of(read_manifests("m.yaml", text), namespace))


def test_an_object_has_group_title_and_namespace() -> None:
    (found,) = objects("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "team")
    assert (found.group, found.kind, found.title) == ("apps", "Deployment", "Deployment team/a")
    (found,) = objects("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-, namespace: own}\n", "team")
    assert (found.group, found.title) == ("", "Pod own/a-")


def test_a_namespace_is_in_no_namespace() -> None:
    (found,) = objects("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "team")
    assert found.title == "Namespace a"


def test_a_list_is_taken_apart_and_its_items_keep_their_places() -> None:
    text = "apiVersion: v1\nkind: PodList\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n"
    (found,) = objects(f"{text}- apiVersion: v1\n  kind: List\n  items: []\n")
    assert (found.title, found.node.path) == ("Pod a", ("items", 0))
    assert str(found.place(found.node.at("metadata", "name"))) == "m.yaml:7:11"


def test_an_object_without_a_kind_or_that_is_no_mapping_has_a_fault() -> None:
    for text in ("apiVersion: v1\n", "kind: Pod\n", "- a\n", "text\n", "apiVersion: v1\nkind: [Pod]\n"):
        (found,) = objects(text)
        assert found.node.faults, text


def test_lists_in_lists_end_somewhere() -> None:
    text = "{apiVersion: v1, kind: List, items: [" * 6 + "]}" * 6 + "\n"
    (found,) = objects(text)
    assert found.kind == "List"
