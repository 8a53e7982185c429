"""The command of the page, as far as it does not serve."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from egress.audit.key import read_or_create
from egress.cli.main import main
from egress.cli.ui import _check, address
from egress.errors import UsageError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8090", ("127.0.0.1", 8090)),
        ("[::1]:0", ("::1", 0)),
        ("8090", ("127.0.0.1", 8090)),
    ],
)
def test_reads_an_address(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:99999", "host:-1"])
def test_refuses_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        address(text)


def test_says_when_there_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--dir", str(tmp_path)]) == 3
    assert "there is no audit log" in capsys.readouterr().err


def test_the_check_of_the_chain_runs_nothing_of_the_folder_it_is_started_in(tmp_path: Path) -> None:
    """A sandbox may have written to that, and its word for a log would be good."""
    package = tmp_path / "egress"
    package.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_text("raise SystemExit('not ours')", encoding="utf-8")
    log = tmp_path / "log"
    log.mkdir()
    key = tmp_path / "state/audit.key"
    read_or_create(key, log)
    command = _check(None, log, key)
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "not ours" not in run.stderr
    assert "there is no audit log" in run.stdout + run.stderr
