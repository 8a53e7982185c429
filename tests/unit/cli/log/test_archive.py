"""`egress log archive`: the log as a stream, which is no text."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from egress.audit.log_copy import read_parts
from tests.unit.audit.test_log_collection import write_replica


def words(log: Path) -> list[str]:
    return [sys.executable, "-m", "egress", "log", "archive", "--dir", str(log)]


def test_an_archive_is_what_collect_reads(tmp_path: Path) -> None:
    write_replica(tmp_path / "log", "replica", 1)
    done = subprocess.run(words(tmp_path / "log"), input=b"", capture_output=True, check=True)
    (tmp_path / "archive").write_bytes(done.stdout)
    with (tmp_path / "archive").open("rb") as file:
        names = [part.name for part in read_parts(file)]
    assert names == ["audit-000001.jsonl", "head", "chains/register"]


def test_lines_that_the_other_side_has_are_left_out(tmp_path: Path) -> None:
    write_replica(tmp_path / "log", "replica", 1)
    size = (tmp_path / "log/audit-000001.jsonl").stat().st_size
    known = b'{"audit-000001.jsonl": %d}' % size
    done = subprocess.run(words(tmp_path / "log"), input=known, capture_output=True, check=True)
    assert b"audit-000001.jsonl" not in done.stdout
    assert b'"head"' in done.stdout


def test_a_terminal_gets_none_of_it(tmp_path: Path) -> None:
    write_replica(tmp_path / "log", "replica", 1)
    main, terminal = pty.openpty()
    done = subprocess.run(
        words(tmp_path / "log"), input=b"", stdout=terminal, stderr=subprocess.PIPE, check=False
    )
    os.close(terminal)
    os.close(main)
    assert done.returncode == 2
    assert b"a log is no text for a terminal" in done.stderr
