"""An index that is brought up to its log on a disk of a few MiB: while that is full, and with room again.

    python -m tests.review.tiny_index FOLDER

It has to be run in a mount namespace of its own, as its root. Prints what came of it, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from egress.errors import UnreadableError
from egress.review import Filters, Index
from tests.unit.audit.sample import NAME, sound
from tests.unit.review.sample import Writing, write

LEFT = 32 * 1024
"""Bytes that are left: too few for what is new, of which there is a MiB and more."""
MORE = 3000


def play(disk: Path) -> dict[str, object]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", disk], check=True)
    log = disk / "log"
    write(log)
    with Index(log, reserve=0) as index:
        index.catch_up()
        lines = grown(log)
        ballast = filled(disk)
        full = index.catch_up()
        newest = [entry.request for entry in index.query(Filters(event="exchange"), 2).entries]
        found = [entry.request for entry in index.query(Filters(grep="user/keys")).entries]
        facts: dict[str, object] = {
            "trouble": full.trouble,
            "is_behind": full.behind > 0,
            "newest": newest,
            "found": found,
            "from_nothing": from_nothing(log, disk),
        }
        sound(log)
        ballast.unlink()
        after = index.catch_up()
        total = index.stats(Filters(event="refusal"), "host").total.requests
        return facts | {"after": after.trouble, "lines": after.lines == lines, "refusals": total}


def grown(log: Path) -> int:
    """Many lines more, without the folding of refusals; returns how many there are then."""
    writing = Writing(log)
    for _ in range(MORE):
        writing.sink.refusal(NAME)
        writing.sink._folder._windows.clear()
    writing.close()
    return sum(file.read_bytes().count(b"\n") for file in log.glob("*.jsonl"))


def filled(disk: Path) -> Path:
    """Take all but a little of the room."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - LEFT)))
    return ballast


def from_nothing(log: Path, disk: Path) -> str:
    """What is said where not even the beginning of an index can be written."""
    (disk / "rest").write_bytes(bytes(0))
    with (disk / "rest").open("ab", buffering=0) as rest:
        try:
            while rest.write(bytes(512)) == 512:
                pass
        except OSError:
            pass
    try:
        with Index(log, disk / "other", reserve=0) as other:
            other.catch_up()
            return "made"
    except UnreadableError as error:
        return error.message
    finally:
        (disk / "rest").unlink()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(Path(sys.argv[1]))))
