"""All of it once more, for a user of this machine without any right: nothing of it takes root."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.runtime.namespace import unprivileged_python


@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as such a user already")
@pytest.mark.parametrize(
    "file",
    [
        # As root the gate runs them all; the ways out are what rights would open.
        pytest.param("test_runtime.py", marks=pytest.mark.nightly),
        pytest.param("test_disk.py", marks=pytest.mark.nightly),
        "test_escapes.py",
    ],
)
def test_it_holds_for_a_user_without_rights(namespaces: None, tmp_path: Path, file: str) -> None:
    stage, home = tmp_path / "stage", Path("/tmp") / f"egress-plain-{os.getpid()}-{file[5:8]}"
    stage.mkdir()
    # Its own is not below a folder of root's.
    home.mkdir(mode=0o700)
    os.chown(home, unprivileged_python.USER, unprivileged_python.USER)
    arguments = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", str(home / "tests")]
    path = Path(__file__).with_name(file)
    try:
        done = subprocess.run(
            unprivileged_python.words([*arguments, str(path)], stage),
            cwd=unprivileged_python.ROOT,
            env=unprivileged_python.environment(home),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) > 15
