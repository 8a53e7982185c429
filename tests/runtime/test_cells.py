"""Cells: whole when they are given, gone when they are closed, and never half of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.docker import labels
from egress.runtime.docker.cells import Cells
from egress.runtime.docker.engine import Engine
from egress.runtime.errors import DoorError, EngineError, SandboxError
from egress.runtime.lease import Lease
from tests.runtime.test_reaper import things


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cells-") as folder:
        yield Path(folder)


def test_a_cell_is_a_network_with_a_door_that_has_opened(engine: Engine, home: Path) -> None:
    with Lease(home) as lease:
        cells = Cells(engine, home, str(lease.path))
        cell = cells.take()
        cell.open()
        [door] = [each for each in engine.containers(labels.LEASE) if cell.id in each.name]
        assert (door.state, door.labels[labels.ROLE]) == ("running", labels.ROLE_DOOR)
        assert [item.port for item in cell.keeper.listeners] == [3128, 80, 443, 53, 53]
        assert all(item.sock.getsockname()[0] == cell.door for item in cell.keeper.listeners)
        cell.close()
        assert things(engine, home) == []
        cells.close()
    assert list(home.iterdir()) == []


def test_a_network_can_be_ended_before_the_rest(engine: Engine, home: Path) -> None:
    with Lease(home) as lease:
        cells = Cells(engine, home, str(lease.path))
        cell = cells.take()
        cell.open()
        cell.open()
        cell.end_network()
        assert cell.keeper.listeners == ()
        cell.close()
        assert things(engine, home) == []
        cells.close()


def test_those_that_are_ready_and_not_wanted_are_taken_away(engine: Engine, home: Path) -> None:
    with Lease(home) as lease:
        cells = Cells(engine, home, str(lease.path), ready=2)
        assert cells.shelf.until_ready()
        assert len(things(engine, home)) == 4
        cells.close()
        assert things(engine, home) == []


def test_a_door_that_does_not_open_leaves_nothing(
    engine: Engine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lease(home) as lease:
        cells = Cells(engine, home, str(lease.path))
        cells.image = "no-such-image:ever"
        cell = cells.take()
        with pytest.raises(SandboxError):
            cell.open()
        cell.close()
        assert things(engine, home) == []
        cells.close()


def test_a_door_that_ends_at_once_is_not_waited_for(engine: Engine, home: Path, image: str) -> None:
    """Another image has no such program in it."""
    with Lease(home) as lease:
        cells = Cells(engine, home, str(lease.path))
        cells.image = image
        cell = cells.take()
        with pytest.raises((DoorError, EngineError)):
            cell.open()
        cell.close()
        assert things(engine, home) == []
        cells.close()
