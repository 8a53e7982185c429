"""The pipe that ends with its owner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from egress.runtime.docker import death_pipe
from egress.runtime.docker.death_pipe import DeathPipe


def reader(path: Path) -> subprocess.Popen[bytes]:
    script = death_pipe.WAIT_SCRIPT.replace(death_pipe.PIPE_PATH, str(path))
    return subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL)


def test_who_waits_at_it_ends_with_it(tmp_path: Path) -> None:
    line = DeathPipe(tmp_path / "line")
    with reader(line.path) as process:
        while not any(
            os.path.realpath(file) == str(line.path) for file in Path(f"/proc/{process.pid}/fd").iterdir()
        ):
            pass
        assert process.poll() is None
        line.close()
        line.close()
        assert process.wait(30) == 1


def test_nobody_writes_to_it(tmp_path: Path) -> None:
    line = DeathPipe(tmp_path / "line")
    assert line.path.is_fifo()
    assert line.path.stat().st_mode & 0o777 == 0o444
    assert not os.get_inheritable(line._end)
    line.close()


def test_where_it_cannot_be_opened_it_is_waited_all_the_same(tmp_path: Path) -> None:
    with reader(tmp_path / "nothing") as process:
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            raise AssertionError("it did not wait")
