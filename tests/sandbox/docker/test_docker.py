"""What the handle promises, in containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox import options
from egress.sandbox.handle import Sandbox
from tests.runtime.docker_lab import DockerLab
from tests.sandbox import full_disk_cases, lasting_cases, network_cases, sleep_cases
from tests.unit.sandbox.contract import CASES, Case

EVERY = (
    *(case for topic in CASES.values() for case in topic),
    *network_cases.CASES,
    *sleep_cases.CASES,
    *lasting_cases.CASES,
)


@pytest.mark.parametrize("promise", EVERY, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)


@pytest.mark.parametrize("promise", full_disk_cases.CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept_on_a_full_disk(promise: Case, small: Sandbox) -> None:
    promise(small)


def test_one_that_was_made_ahead_is_taken(house: DockerLab) -> None:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    Sandbox.prepare(1, image=house.image, memory="300m", runtime=fleet)
    try:
        assert house.runtime._pool.until_ready()
        [(_, _, shelf)] = house.runtime._pool._kinds
        [blank] = shelf._things
        with Sandbox.create(image=house.image, memory="300m", env={"A": "b"}, runtime=fleet) as box:
            assert house.runtime._register.get(box.name).unassigned is blank
            assert box.exec("echo $A").text == "b\n"
    finally:
        Sandbox.prepare(0, image=house.image, memory="300m", runtime=fleet)
    assert house.runtime._pool._kinds == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder is given to somebody else by root alone")
def test_a_folder_of_its_maker_can_be_written(
    house: DockerLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever that is: with another number than the usual one."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    os.chown(folder, 4321, 4321)
    monkeypatch.setattr(options, "caller_ids", lambda: (4321, 4321))
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    volumes = {str(folder): "/data:rw"}
    with Sandbox.create(image=house.image, volumes=volumes, runtime=fleet) as box:
        box.exec("echo written > /data/file; id -u > /data/who", check=True)
    assert (folder / "file").read_text("utf-8") == "written\n"
    assert (folder / "who").read_text("utf-8") == "4321\n"
