"""Snapshots of sandboxes of namespaces: the workspace, and never the machine's own file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.errors import UnsupportedError
from egress.sandbox.capabilities import HOST_IMAGE
from tests.runtime import planting_cases
from tests.runtime.namespace.namespace_lab import NamespaceLab
from tests.sandbox import snapshot_cases
from tests.sandbox.snapshot_cases import Case, SnapshotScene


@pytest.fixture
def scene(house: NamespaceLab, tmp_path: Path) -> Iterator[SnapshotScene]:
    scene = SnapshotScene(house.runtime, "namespace", HOST_IMAGE, tmp_path)
    yield scene
    scene.close()


@pytest.mark.parametrize("promise", snapshot_cases.CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, scene: SnapshotScene) -> None:
    promise(scene)


def test_canaries_are_neither_kept_nor_written_over(house: NamespaceLab, scene: SnapshotScene) -> None:
    with planting_cases.lab_canary_rules(house) as ground:
        snapshot_cases.canaries_are_neither_kept_nor_written_over(scene, ground)


def test_an_image_is_for_containers(scene: SnapshotScene) -> None:
    with scene.box() as box, pytest.raises(UnsupportedError, match="only containers"):
        box.snapshot("first", kind="image")
    assert scene.fleet.snapshots() == ()
