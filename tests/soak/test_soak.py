"""The soak itself, for some seconds: it runs, it says what it should, and all is well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_some_seconds_of_it() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"memory +[0-9.]+ MiB +descriptors +\d+ +requests +\d+ .* lost 0 +doubled 0\n", done.stdout
    )
    assert done.stdout.endswith("all is well\n")
