"""Snapshots of containers: the workspace, or the whole file system as an image."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet.errors import SnapshotQuotaError
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.labels import LEASE_LABEL, ROLE_LABEL
from egress.runtime.errors import EngineError, SpecError, UnsupportedError
from egress.runtime.protocol import SAVED_IMAGE_REPOSITORY
from tests.runtime import planting_cases
from tests.runtime.docker_lab import DockerLab
from tests.sandbox import snapshot_cases
from tests.sandbox.snapshot_cases import Case, SnapshotScene


@pytest.fixture
def scene(house: DockerLab, tmp_path: Path) -> Iterator[SnapshotScene]:
    scene = SnapshotScene(house.runtime, "docker", house.image, tmp_path)
    yield scene
    scene.close()


def images(engine: DockerEngine) -> set[str]:
    return {name for each in engine.images(f"egress.image={SAVED_IMAGE_REPOSITORY}") for name in each.names}


@pytest.mark.parametrize("promise", snapshot_cases.CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, scene: SnapshotScene) -> None:
    promise(scene)


def test_canaries_are_neither_kept_nor_written_over(house: DockerLab, scene: SnapshotScene) -> None:
    with planting_cases.lab_canary_rules(house) as ground:
        snapshot_cases.canaries_are_neither_kept_nor_written_over(scene, ground)


def test_the_whole_file_system_comes_back(scene: SnapshotScene, engine: DockerEngine) -> None:
    with scene.box() as box:
        box.exec("echo kept > file; mkdir -p /tmp/deep; echo tool > /tmp/deep/tool", check=True)
        done = box.snapshot("first", kind="image")
        assert box.status() == "running"
    assert images(engine) == {done.saved_image}
    with scene.box("first") as box:
        assert box.info().image == done.saved_image
        assert box.exec("cat file /tmp/deep/tool", check=True).text == "kept\ntool\n"
        # Its files are those of its user, wherever they lie.
        box.exec("echo more >> file && echo more >> /tmp/deep/tool", check=True)
        with pytest.raises(EngineError):
            scene.fleet.delete_snapshot("first")
        assert scene.fleet.snapshots() == (done,)
        with pytest.raises(SpecError, match="image is another one"):
            box.create(runtime=scene.fleet, snapshot="first", image=scene.image)
    scene.fleet.delete_snapshot("first")
    assert images(engine) == set()


def test_an_image_holds_nothing_of_ours(house: DockerLab, scene: SnapshotScene) -> None:
    with scene.box() as box:
        authority = box.exec("cat /etc/egress/ca.pem", check=True).stdout_bytes
        assert authority.startswith(b"-----BEGIN CERTIFICATE-----")
        done = box.snapshot("first", kind="image")
    api = house.runtime._engine._api
    container = api.create_container(done.saved_image, command=["none"])["Id"]
    try:
        data = b"".join(api.export(container))
    finally:
        api.remove_container(container)
    assert authority.splitlines()[1] not in data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        ours = [each for each in tar if each.name.startswith(("etc/egress", ".egress", "workspace"))]
    # The engine makes the places of mounts: folders, and empty files.
    assert {each.size for each in ours} == {0}
    config = api.inspect_image(done.saved_image)["Config"]  # type: ignore[no-untyped-call]
    # A container of this image must not be taken for what a dead owner has left.
    assert (config["Labels"][ROLE_LABEL], config["Labels"][LEASE_LABEL]) == ("", "")
    assert not any("PROXY" in each.upper() for each in config.get("Env") or ())


def test_a_sandbox_with_canary_files_is_not_kept_whole(house: DockerLab, scene: SnapshotScene) -> None:
    with planting_cases.lab_canary_rules(house) as ground:
        ground.plant("key: { like: aws, file: ~/key }")
        with scene.box() as box, pytest.raises(UnsupportedError, match="canary files"):
            box.snapshot("first", kind="image")
    assert scene.fleet.snapshots() == ()


def test_what_is_too_large_is_not_kept_whole(scene: SnapshotScene, engine: DockerEngine) -> None:
    with scene.box() as box:
        box.exec("dd if=/dev/zero of=/tmp/large bs=1000000 count=25 2>/dev/null", check=True)
        with pytest.raises(SnapshotQuotaError):
            box.snapshot("first", kind="image")
        # It was paused to be measured.
        assert box.exec("echo on").text == "on\n"
    assert (scene.fleet.snapshots(), images(engine)) == ((), set())
