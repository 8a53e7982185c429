"""U18: an address that goes from one network namespace to another while a connection of it is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root")
def test_a_kept_connection_is_cut_and_the_new_peer_is_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.moved_address", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["first"] == told["second"] == "HTTP/1.1 404 Not Found", "both were served"
    assert told["kept"] == ""
    # Before the cluster says so nobody is let in under a name, and afterwards under none but its own.
    assert told["gate before"] == ["503", "204"]
    assert told["gate after"] == ["204", "503"]
    assert told["recorded"] == [["/pods/one", "one"], ["/pods/two", "two"]]
    assert told["cut"] == [[1, "identity.gone"]]
