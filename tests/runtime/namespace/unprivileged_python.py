"""Runs this interpreter as a user of the machine without any right, where the tests themselves are root's.

What it needs may lie in a folder of root's own. Such a folder is replaced, for that process alone, by one
with nothing in it but what is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

USER: Final = 47110
ROOT: Final = Path(__file__).resolve().parents[3]

_SCRIPT: Final = """
set -e
stage=$1 root=$2 count=$3
shift 3
mount -t tmpfs -o mode=755 stage "$stage"
at=0
places=
while [ "$at" -lt "$count" ]; do
  mkdir "$stage/$at"
  mount --rbind "$1" "$stage/$at"
  places="$places $1"
  shift
  at=$((at + 1))
done
count=$1
shift
while [ "$count" -gt 0 ]; do
  mount -t tmpfs -o mode=755 closed "$1"
  shift
  count=$((count - 1))
done
at=0
for place in $places; do
  mkdir -p "$place"
  mount --rbind "$stage/$at" "$place"
  at=$((at + 1))
done
cd "$root"
exec "$@"
"""


def words(arguments: list[str], stage: Path) -> list[str]:
    """The interpreter with these arguments; `stage` is an empty folder."""
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT]
    closed = sorted({str(found) for place in needed if (found := _closed(place))})
    places = sorted({str(place) for place in needed if _closed(place)})
    return [
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh"),
        *(str(stage), str(ROOT), str(len(places)), *places, str(len(closed)), *closed),
        *("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--inh-caps", "-all"),
        *(sys.executable, *arguments),
    ]


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


def _closed(place: Path) -> Path | None:
    """The first folder on the way there that others may not enter."""
    ways = [each for each in reversed([place, *place.parents]) if not each.stat().st_mode & 0o001]
    return ways[0] if ways else None
