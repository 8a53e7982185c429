"""ruff refuses what the house rules forbid, and lets through what the named files may do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUFF = Path(sys.executable).with_name("ruff")


def rules_broken(file: str, source: str) -> set[str]:
    """The codes of the rules that `source` would break as `file`."""
    command = [str(RUFF), "check", "--no-cache", "--output-format=json", f"--stdin-filename={file}", "-"]
    run = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True, check=False)
    return {finding["code"] for finding in json.loads(run.stdout)}


@pytest.mark.parametrize(
    ("file", "source", "code"),
    [
        ("egress/policy/rule_files.py", "import os\nx = os.environ['X']", "TID251"),
        ("egress/policy/rule_files.py", "from os import getenv\nx = getenv('X')", "TID251"),
        ("egress/proxy/ingress/server.py", "import time\nx = time.time()", "TID251"),
        (
            "egress/proxy/ingress/server.py",
            "import datetime\nx = datetime.datetime.now(datetime.UTC)",
            "TID251",
        ),
        ("egress/secrets/cache.py", "import random", "TID251"),
        ("egress/rules/text.py", "with open('x') as file:\n    pass", "PTH123"),
        ("egress/rules/text.py", "x = eval('1')", "S307"),
        ("egress/cli/check.py", "print('x')", "T201"),
        ("egress/rules/text.py", "from . import hosts", "TID252"),
    ],
)
def test_it_is_refused(file: str, source: str, code: str) -> None:
    assert code in rules_broken(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("egress/environment.py", "import os\nx = os.environ['X']"),
        ("egress/cli/render.py", "print('x')"),
        ("bench/decide.py", "import time\nprint(time.time())"),
    ],
)
def test_it_is_allowed_in_the_files_named_for_it(file: str, source: str) -> None:
    assert not rules_broken(file, source) & {"TID251", "T201"}
