"""Runs a story that mounts a small disk: a module of this folder, in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LEFT_OUT

ROOT = Path(__file__).parents[2]
PATIENCE = 100


def story(request: pytest.FixtureRequest, module: str, *words: str) -> dict[str, object]:
    """What came of it. Left out with a word where this user may not mount anything."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        ["unshare", "--mount", *rights, sys.executable, "-m", module, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        request.node.user_properties.append((LEFT_OUT, "a mount namespace, which this user may not have"))
        pytest.skip("this user may not mount a disk here")
    assert done.returncode == 0, done.stderr
    facts: dict[str, object] = json.loads(done.stdout)
    return facts
