"""Cells: whole when they are given, gone when they are closed, and never half of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.docker import door_container, labels
from egress.runtime.docker.engine import DockerEngine, Json
from egress.runtime.docker.network_cell import NetworkCellPool
from egress.runtime.errors import DoorError, EngineError, SandboxError
from egress.runtime.owner_lock import OwnerLock
from tests.runtime.test_reaper import things


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cells-") as folder:
        yield Path(folder)


def test_a_cell_is_a_network_with_a_door_that_has_opened(engine: DockerEngine, home: Path) -> None:
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path))
        cell = cells.take()
        cell.open()
        [door] = [each for each in engine.containers(labels.LEASE_LABEL) if cell.id in each.name]
        assert (door.state, door.labels[labels.ROLE_LABEL]) == ("running", labels.ROLE_DOOR)
        assert [item.port for item in cell.door_controller.listeners] == [3128, 80, 443, 53, 53]
        assert all(item.sock.getsockname()[0] == cell.door_address for item in cell.door_controller.listeners)
        cell.close()
        assert things(engine, home) == []
        cells.close()
    assert list(home.iterdir()) == []


def test_a_door_is_made_of_its_image_though_that_has_lost_its_name(engine: DockerEngine, home: Path) -> None:
    """Installations side by side remove each other's names, once an image has many."""
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path))
        for each in engine.images(f"{labels.IMAGE_LABEL}={door_container.REPOSITORY}"):
            for name in each.names:
                if ":stat-" in name:
                    engine.untag_image(name)
        cell = cells.take()
        cell.open()
        cell.close()
        cells.close()
        assert things(engine, home) == []


def test_a_network_can_be_ended_before_the_rest(engine: DockerEngine, home: Path) -> None:
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path))
        cell = cells.take()
        cell.open()
        cell.open()
        cell.end_network()
        assert cell.door_controller.listeners == ()
        cell.close()
        assert things(engine, home) == []
        cells.close()


def test_those_that_are_ready_and_not_wanted_are_taken_away(engine: DockerEngine, home: Path) -> None:
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path), ready=2)
        assert cells.prewarmer.until_ready()
        assert len(things(engine, home)) == 4
        cells.close()
        assert things(engine, home) == []


def test_for_a_single_sandbox_one_cell_is_made_ahead_and_no_other(engine: DockerEngine, home: Path) -> None:
    """A network of each `egress run` beside its own: the engine has about thirty to give."""
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path), ready=1, is_single=True)
        cell = cells.take()
        cell.open()
        made = things(engine, home)
        assert len(made) == 2
        # Nothing is made for a second one, which is still given a cell when it comes.
        assert cells.prewarmer.until_ready(0)
        another = cells.take()
        another.open()
        assert len(things(engine, home)) == 4
        another.close()
        assert things(engine, home) == made
        cell.close()
        cells.close()
        assert things(engine, home) == []


def test_a_single_sandbox_does_not_wait_for_its_door(
    engine: DockerEngine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both start at the same time. A door that still starts is waited for before anything is removed."""
    is_network_gone = threading.Event()
    order: list[str] = []
    create, remove = engine.create_container, engine.remove_network

    def create_late(name: str, config: Json) -> str:
        door = create(name, config)
        # As late as can be: behind the whole removal, if that does not wait for the door.
        is_network_gone.wait(0.3)
        order.append("made")
        return door

    def remove_network(network: str) -> None:
        remove(network)
        order.append("removed")
        is_network_gone.set()

    monkeypatch.setattr(engine, "create_container", create_late)
    monkeypatch.setattr(engine, "remove_network", remove_network)
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path), ready=1, is_single=True)
        cell = cells.take()
        assert cell.door_controller.listeners == ()
        [opening] = [each for each in threading.enumerate() if each.name == "egress-aside"]
        cell.close()
        opening.join()
        assert order == ["made", "removed"]
        assert things(engine, home) == []
        cells.close()


def test_a_door_made_ahead_that_does_not_open_is_reported(engine: DockerEngine, home: Path) -> None:
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path), is_single=True)
        cells.image = "no-such-image:ever"
        cells.prewarmer.want(1)
        cell = cells.take()
        with pytest.raises(SandboxError):
            cell.open()
        cell.close()
        assert things(engine, home) == []
        cells.close()


def test_a_door_that_does_not_open_leaves_nothing(
    engine: DockerEngine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path))
        cells.image = "no-such-image:ever"
        cell = cells.take()
        with pytest.raises(SandboxError):
            cell.open()
        cell.close()
        assert things(engine, home) == []
        cells.close()


def test_a_door_that_ends_at_once_is_not_waited_for(engine: DockerEngine, home: Path, image: str) -> None:
    """Another image has no such program in it."""
    with OwnerLock(home) as lease:
        cells = NetworkCellPool(engine, home, str(lease.path))
        cells.image = image
        cell = cells.take()
        with pytest.raises((DoorError, EngineError)):
            cell.open()
        cell.close()
        assert things(engine, home) == []
        cells.close()
