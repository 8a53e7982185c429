"""A bounded disk, in containers: what is written has an end, and nothing of it is on the machine's disk."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine, Json
from egress.runtime.spec import Mount, SandboxLimits
from tests.runtime import disk_cases
from tests.runtime.disk_cases import CASES, Case, full, lists
from tests.runtime.docker_lab import DockerLab, DockerLabSandbox


class Builder:
    """Makes sandboxes for one test."""

    def __init__(self, house: DockerLab, engine: DockerEngine) -> None:
        self._house = house
        self._engine = engine
        self._made: list[str] = []
        self.runtime = house.runtime

    def box(self, name: str, **values: object) -> DockerLabSandbox:
        self._made.append(name)
        spec = replace(self._house.spec(name), **values)  # type: ignore[arg-type]
        self.runtime.create(spec)
        self.runtime.start(name)
        return DockerLabSandbox(self._house, name)

    def taken(self) -> int:
        """What the engine says of the containers' own layers; there are no volumes."""
        ids = [self._house.container(name) for name in self._made]
        found = [self._engine._api.containers(all=True, size=True, filters={"id": each}) for each in ids]
        assert not [m for each in found for m in each[0]["Mounts"] if m["Type"] == "volume"]
        return sum(each[0].get("SizeRw", 0) for each in found)

    def remove_all(self) -> None:
        for name in self._made:
            self.runtime.remove(name)


@pytest.fixture
def builder(house: DockerLab, engine: DockerEngine) -> Iterator[Builder]:
    builder = Builder(house, engine)
    yield builder
    builder.remove_all()


@pytest.mark.parametrize("promise", CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, builder: Builder) -> None:
    promise(builder)


def test_what_is_mounted_in_it_stays(builder: Builder, tmp_path: Path) -> None:
    disk_cases.what_is_mounted_in_it_stays(builder, tmp_path)


def test_what_stands_in_the_place_of_its_own_folders_stays(builder: Builder, tmp_path: Path) -> None:
    disk_cases.what_stands_in_the_place_of_its_own_folders_stays(builder, tmp_path)


# Images that declare volumes ------------------------------------------------------------------------


@pytest.fixture
def voluminous(house: DockerLab, engine: DockerEngine) -> Iterator[str]:
    """The usual image, with three folders that an engine would let be written on its disk."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("data", "workspace", "more"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
        entry = tarfile.TarInfo("data/there")
        entry.size = 6
        tar.addfile(entry, io.BytesIO(b"there\n"))
    holder = engine.create_container("egress-test-volumes", {"Image": house.image, "Cmd": ["true"]})
    try:
        engine.put_archive(holder, "/", made.getvalue())
        config: Json = {"Volumes": {"/data/": {}, "/workspace": {}, "/more": {}, "/tmp": {}}}
        engine._api.commit(holder, repository="egress-test", tag="volumes", conf=config)
    finally:
        engine.remove_container(holder)
    yield "egress-test:volumes"
    engine.remove_image("egress-test:volumes")


@pytest.mark.parametrize("values", [{"limits": SandboxLimits(disk_mib=2)}, {"read_only": True}])
def test_what_an_image_declares_as_a_volume_is_not_written(
    builder: Builder, engine: DockerEngine, voluminous: str, tmp_path: Path, values: dict[str, object]
) -> None:
    tmp_path.chmod(0o777)
    mounts = (Mount(source=tmp_path, target="/more", writable=True),)
    box = builder.box("one", image=voluminous, mounts=mounts, **values)
    assert b"Read-only" in box.sh("echo x >/data/a").stderr_bytes
    assert box.sh("cat /data/there").stdout_bytes == b"there\n"
    assert box.sh("echo x >/workspace/a && echo x >/more/a && echo x >/tmp/a").exit_code == 0
    assert (tmp_path / "a").read_bytes() == b"x\n"
    if "limits" in values:
        assert b"No space left" in full(box, "/workspace/b", 4)
    found = engine._api.inspect_container(builder._house.container("one"))["Mounts"]
    volumes = [each["Name"] for each in found if each["Type"] == "volume"]
    assert all(each.startswith("egress-") for each in volumes), volumes
    builder.runtime.remove("one")
    left = {each["Name"] for each in engine._api.volumes()["Volumes"] or ()}
    assert not left & set(volumes)


def test_what_the_kernel_keeps_of_shared_memory_has_an_end(builder: Builder) -> None:
    """An engine's own would take millions of lists, in a sandbox of any kind."""
    made, reason = lists(builder.box("one"), "/dev/shm")
    assert 900 < made < 1024
    assert reason == "No space left on device"
