"""A line longer than memory may be: every command that reads a log gets past it, in bounded memory.

The line is a hole in a file, so that it takes no room on the disk. Each command runs as a process of its
own and says at its end how much memory it ever had.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IS_NIGHTLY
from tests.unit.audit.sample import KEY, files
from tests.unit.review.sample import Writing, write

ROOT = Path(__file__).parents[2]
SIZE = (1 << 30) if IS_NIGHTLY else (1 << 28)
MOST = 160 * 1024
"""KiB: the program itself takes half of it."""
RUNS = """
import sys
from pathlib import Path
from egress.cli.main import main

status = main(sys.argv[1:])
# The peak of this program alone; what `resource` tells has that of its parent in it.
(peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
print(status, peak)
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with such a line between those of the proxy."""
    folder = tmp_path_factory.mktemp("huge")
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_bytes(KEY)
    log = folder / "log"
    write(log)
    with files(log)[0].open("r+b") as writing:
        writing.truncate(writing.seek(0, 2) + SIZE)
        writing.seek(0, 2)
        writing.write(b"\n")
    after = Writing(log)
    after.exchange("r-after")
    after.close()
    return log


def run(log: Path, *words: str) -> tuple[int, str]:
    """The status of a command, and what it said; it may not have needed more memory than is bearable."""
    done = subprocess.run(
        [sys.executable, "-c", RUNS, *words],
        cwd=log.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": str(log.parent)},
    )
    said, _, last = done.stdout.rstrip("\n").rpartition("\n")
    status, peak = map(int, last.split())
    assert peak < MOST, words
    return status, said + done.stderr


def test_verify_says_where_it_is(log: Path) -> None:
    status, said = run(log, "log", "verify", "--dir", "log", "--key", "key")
    assert status == 1
    assert "audit-000001.jsonl:9" in said


def test_a_bundle_is_made_and_checked(log: Path) -> None:
    words = ("--dir", "log", "--key", "key", "--signing-key", "signing", "--output", "evidence.zip")
    status, said = run(log, "log", "export", *words)
    assert status == 0, said
    assert "the log failed verification" in said
    status, said = run(log, "log", "verify", "evidence.zip")
    assert "r-after" not in said
    assert "evidence.zip" in said


def test_a_draft_and_a_replay_take_what_stands_around_it(log: Path) -> None:
    words = ("--dir", "log", "--since", "2026-01-01", "--index", "none")
    status, draft = run(log, "rules", "draft", *words)
    assert status == 0
    assert "1 line of the log could not be read" in draft
    (log.parent / "drafted.yaml").write_text(draft.partition("note: ")[0], "utf-8")
    status, said = run(log, "rules", "replay", "drafted.yaml", *words)
    # The draft leaves out one path, and says so.
    assert status == 1
    assert "6 unchanged" in said


@pytest.mark.parametrize("index", ["log/index.sqlite3", "nowhere/index"])
def test_a_request_in_front_of_it_is_found_by_an_index_and_without(index: str, log: Path) -> None:
    (log.parent / "hosts.yaml").write_text("version: 1\nhosts: {}\n", "utf-8")
    (log.parent / "nowhere").touch()
    words = ("--dir", "log", "--index", index, "--rules", "hosts.yaml")
    status, said = run(log, "log", "suggest", "r-3", *words)
    # It led to an address of no public network, so nothing is suggested; it was found.
    assert status == 1
    assert "GET https://api.github.com/repos/acme/app" in said
