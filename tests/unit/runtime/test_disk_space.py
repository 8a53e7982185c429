"""Some room is left on this machine's disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import SandboxStateError
from egress.runtime.spec import MIB

_PIECE = bytes(MIB)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A disk of 64 MiB, where one can be had: in a namespace, as a folder of a process that is in it."""
    if sys.platform != "linux" or subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("no disk can be made here")
    return tmp_path


def test_what_there_is_room_for_is_written(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        room = SpaceCheckedFile(file)
        for _ in range(40):
            assert room.write(_PIECE) == MIB
    assert (tmp_path / "file").stat().st_size == 40 * MIB


def test_a_tenth_of_a_small_disk_stays_free(small: Path) -> None:
    script = 'mount -t tmpfs -o size=64m none "$1" && shift && exec "$@"'  # Nobody else sees it.
    code = (
        "import sys; from pathlib import Path; from tests.unit.runtime import test_disk_space as own; "
        "own.fill(Path(sys.argv[1]))"
    )
    words = ["unshare", "-Urm", "sh", "-c", script, "sh", str(small), sys.executable, "-c", code, str(small)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.stdout == "told True\n", done.stderr


def fill(folder: Path) -> None:
    """Write until it is refused, and say how it went."""
    with (folder / "file").open("wb") as file:
        room = SpaceCheckedFile(file)
        try:
            for _ in range(64):
                room.write(_PIECE)
        except SandboxStateError:
            written = file.tell() // MIB
            print("told", 40 <= written <= 63)  # noqa: T201
