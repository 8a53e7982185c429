"""`egress log export`, and `egress log verify` of what it made."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from egress.errors import UnreadableError, UsageError
from tests.unit.audit.sample import NAME, files, opened, read
from tests.unit.cli.log.sample import make, run


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path / "state", monkeypatch)


def test_what_is_made_is_verified_with_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts.yaml").write_text("version: 1\nhosts: {a.example.com: {}}\n")
    status, said, _ = run("export", "--verdict", "deny", "-o", "a.zip", "--rules", "hosts.yaml")
    assert status == 0
    assert said.startswith("ok a.zip: 2 lines of 8\n")
    fingerprint = said.split()[-1]
    assert stat.S_IMODE((tmp_path / "state/evidence.key").stat().st_mode) == 0o600
    monkeypatch.setenv("EGRESS_STATE_DIR", "/nowhere")
    status, said, _ = run("verify", "a.zip", "--key", fingerprint)
    assert status == 0
    assert said.splitlines()[0] == "ok a.zip: 2 of the 8 lines of the log, as it was at 2026-03-01T19:30:00Z"
    assert said.splitlines()[1].startswith("the log was sound up to number 8, ")
    assert "compare it" in run("verify", "a.zip")[1]
    told = json.loads(run("verify", "a.zip", "--json")[1])
    assert (told["ok"], told["fingerprint"]) == (True, fingerprint)


def test_a_bundle_that_was_touched_is_a_finding(tmp_path: Path) -> None:
    run("export", "-o", "a.zip")
    status, said, _ = run("verify", "a.zip", "--key", "sha256:" + "1" * 64)
    assert status == 1
    assert said.splitlines()[-1] == "1 fault in a.zip"
    with pytest.raises(UsageError, match="no fingerprint"):
        run("verify", "a.zip", "--key", "x")
    with pytest.raises(UnreadableError, match="already"):
        run("export", "-o", "a.zip")
    (tmp_path / "a.zip").write_bytes(b"\x1b[2J")
    with pytest.raises(UnreadableError, match="not an evidence bundle"):
        run("verify", "a.zip")


def test_a_bundle_says_who_deleted_what_was_before(log: Path) -> None:
    sink = opened(log, rotate_at=1)
    sink.refusal(NAME)
    sink.close()
    run("prune", "--keep-files", "1")
    by = next(line["by"] for line in read(log) if line["event"] == "pruned")
    run("export")
    told = run("verify", "evidence.zip")[1].splitlines()[2]
    assert told.startswith(f"it began with line 10: what was before it had been deleted by {by} at 20")


def test_a_log_that_is_not_sound_is_exported_and_says_so(log: Path) -> None:
    file = files(log)[0]
    file.write_bytes(file.read_bytes().replace(b"bob", b"eve"))
    _, _, beside = run("export")
    assert "failed verification" in beside
    assert "was not sound when this was made" in run("verify", "evidence.zip")[1]
