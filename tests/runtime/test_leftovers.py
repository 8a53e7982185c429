"""Leftovers of tests are told from what is in use, from what is young, and from what is nobody's here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from docker import APIClient

from egress.runtime.docker import labels
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.owner_lock import OwnerLock
from tests.runtime.leftovers import OLD, clear, is_left

NOW = 1_800_000_000.0


def thing(lease: Path | str, age: float) -> dict[str, object]:
    return {"Labels": {labels.LEASE_LABEL: str(lease)}, "Created": int(NOW - age)}


def test_what_is_old_and_held_by_nobody_is_left(tmp_path: Path) -> None:
    with OwnerLock(tmp_path) as lease:
        assert not is_left(thing(lease.path, OLD + 9), NOW)
    assert is_left(thing(lease.path, OLD + 9), NOW)
    assert not is_left(thing(lease.path, OLD - 9), NOW)


@pytest.mark.parametrize("lease", ["/home/agent/.local/state/egress/run/sandboxes/1.lease", "", "/"])
def test_what_no_test_made_is_not_touched(lease: str) -> None:
    assert not is_left(thing(lease, OLD + 9), NOW)


@pytest.mark.parametrize("label", ["Created", "CreatedAt"])
def test_times_of_networks_and_volumes_are_read(label: str, tmp_path: Path) -> None:
    made = {
        "Labels": {labels.LEASE_LABEL: str(tmp_path / "x.lease")},
        label: "2026-11-19T10:00:00.123456789Z",
    }
    assert is_left(made, NOW)
    assert not is_left(made, 0)


def test_all_of_it_goes(engine: DockerEngine, tmp_path: Path) -> None:
    marks = labels.owner_labels(labels.ROLE_WORKSPACE, str(tmp_path / "gone.lease"))
    with APIClient(version="auto") as api:
        name = api.create_volume(labels=marks)["Name"]
        network = f"left-{name[:12]}"
        api.create_network(network, labels=marks)
        try:
            cleared = list(clear(api, time.time() + 2 * OLD, tmp_path))  # noqa: TID251 - its age is asked for
        finally:
            gone = [each["Name"] for each in api.networks(names=[network])]
    assert {f"volume {name}", f"network {network}"} <= set(cleared)
    assert gone == []
