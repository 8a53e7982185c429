"""How many files may be open."""

from __future__ import annotations

import subprocess
import sys

_RAISED = """
import resource
from egress.runtime import open_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
open_file_limit.raise_own_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def test_whoever_keeps_sandboxes_has_as_many_as_there_are() -> None:
    done = subprocess.run([sys.executable, "-c", _RAISED], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
