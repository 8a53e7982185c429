"""Makes the folders that the proxy writes to, for its user alone; and one for what workloads are to trust."""

# ruff: noqa: INP001 - a script of a recipe, in no package

from __future__ import annotations

import os
from pathlib import Path

USER = 10001

for path, mode in (("/var/lib/egress", 0o700), ("/run/egress", 0o700), ("/trust", 0o755)):
    Path(path).mkdir(parents=True)
    Path(path).chmod(mode)
    os.chown(path, USER, USER)
