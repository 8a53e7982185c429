"""The folder of sandboxes, on a disk of a few MiB that is full while one is made, and has room again.

    python -m tests.faults.tiny_home FOLDER

It has to be run in a mount namespace of its own, as its root. Prints what came of it, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from egress.runtime.errors import SandboxError
from egress.runtime.namespace.runtime import NamespaceRuntime
from tests.runtime.namespace.namespace_lab import NamespaceLab

SIZE = "6m"
FREE_SIZES = (0, 4, 16, 64, 256)
"""KiB that are left when one is to be made: it needs more than that, and gets a little further each time."""


class TinyHouse(NamespaceLab):
    """With a disk of its own for the files of sandboxes."""

    def open_runtime(self) -> NamespaceRuntime:
        self.home.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", self.home], check=True)
        return super().open_runtime()

    def _close_runtime(self) -> None:
        super()._close_runtime()
        subprocess.run(["umount", self.home], check=True)


def play(folder: Path) -> dict[str, object]:
    with TinyHouse(folder) as house:
        ballast = house.home / "ballast"
        ballast.touch()
        before = sorted(path.name for path in house.home.iterdir())
        told = []
        for left in FREE_SIZES:
            fill(ballast, left * 1024)
            told.append({"left": left, **attempt(house)})
            told[-1]["behind"] = sorted({path.name for path in house.home.iterdir()} - set(before))
            told[-1]["listed"] = len(house.runtime.list())
        ballast.unlink()
        box = house.box("one")
        return {"told": told, "then": box.get("/x").text}


def fill(ballast: Path, left: int) -> None:
    """Take all but so much of the room."""
    ballast.write_bytes(b"")
    room = os.statvfs(ballast.parent)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - left))


def attempt(house: NamespaceLab) -> dict[str, object]:
    """What is raised where one is made. Of one name each time: a leftover would be in its way."""
    try:
        house.box("one")
    except SandboxError as error:
        return {"code": error.code, "message": error.message, "hint": error.hint}
    except OSError as error:
        return {"code": "", "message": repr(error), "hint": ""}
    return {"code": "made", "message": "", "hint": ""}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(Path(sys.argv[1]))))
