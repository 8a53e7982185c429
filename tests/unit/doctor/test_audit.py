"""The log: folder, disk, key and chain; all of it where it is small, its end where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.audit import Sink, key
from egress.doctor import audit
from egress.doctor.diagnosis import Diagnosis, Level
from egress.proxy.clock import SystemClock
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care, open_folder, patient


def looked(folder: Path, **flags: object) -> dict[str, Diagnosis]:
    return by_name(audit.check(patient(folder, settings=flags)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of some lines, whose proxy has ended."""
    folder = tmp_path / "state/audit"
    sink = opened(tmp_path)
    for _ in range(20):
        sink.event("started", version="1", policy="x", files="hosts.yaml")
        sink.flush()
    sink.close()
    return folder


def opened(folder: Path) -> Sink:
    known = key.read_or_create(folder / "state/audit.key", folder / "state/audit")
    return Sink.open(folder / "state/audit", known, clock=SystemClock())


@pytest.fixture(params=["small", "large"], name="size")
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "large":
        monkeypatch.setattr(audit, "MAX_FULL_CHECK_BYTES", 0)
    return str(request.param)


def test_no_log_yet_is_fine_and_none_is_made(tmp_path: Path) -> None:
    assert is_content(looked(tmp_path).values())
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_holds_is_told_with_its_newest_number(log: Path, tmp_path: Path, size: str) -> None:
    found = looked(tmp_path)
    assert {item.level for item in found.values()} == {Level.OK}
    assert "20" in found["log"].fact


def test_a_log_that_is_written_meanwhile_is_fine(log: Path, tmp_path: Path, size: str) -> None:
    sink = opened(tmp_path)
    try:
        sink.event("started", version="1", policy="x", files="hosts.yaml")
        assert looked(tmp_path)["log"].level is Level.OK
        sink.flush()
        assert looked(tmp_path)["log"].level is Level.OK
    finally:
        sink.close()


def test_a_tail_that_was_cut_off_is_a_fault(log: Path, tmp_path: Path, size: str) -> None:
    file = log / "audit-000001.jsonl"
    os.truncate(file, file.stat().st_size - 100)
    needs_care(looked(tmp_path)["log"], Level.FAULT)


def test_a_last_line_that_was_changed_is_a_fault(log: Path, tmp_path: Path, size: str) -> None:
    file = log / "audit-000001.jsonl"
    data = file.read_bytes()
    file.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
    needs_care(looked(tmp_path)["log"], Level.FAULT)


def test_a_line_in_the_middle_that_was_changed_is_a_fault_of_a_small_log(log: Path, tmp_path: Path) -> None:
    file = log / "audit-000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b"hosts.yaml", b"other.yaml", 1))
    needs_care(looked(tmp_path)["log"], Level.FAULT, "audit-000001.jsonl:1")


def test_another_key_is_a_fault(log: Path, tmp_path: Path) -> None:
    (tmp_path / "state/audit.key").write_bytes(bytes(32))
    needs_care(looked(tmp_path)["log"], Level.FAULT, "not written with this key")


def test_a_key_that_is_gone_is_a_fault(log: Path, tmp_path: Path) -> None:
    (tmp_path / "state/audit.key").unlink()
    needs_care(looked(tmp_path)["key"], Level.FAULT, "but its key")
    assert not (tmp_path / "state/audit.key").exists()


def test_a_key_that_others_may_read_is_a_fault(log: Path, tmp_path: Path) -> None:
    (tmp_path / "state/audit.key").chmod(0o644)
    needs_care(looked(tmp_path)["log"], Level.FAULT, "is open to other users")


def test_a_key_in_the_folder_of_the_log_is_a_fault(log: Path, tmp_path: Path) -> None:
    (tmp_path / "state/audit.key").rename(log / "audit.key")
    found = looked(tmp_path, audit_key=log / "audit.key")
    needs_care(found["log"], Level.FAULT, "in the folder of the log")


def test_a_folder_that_everybody_can_write_is_a_fault(tmp_path: Path) -> None:
    with open_folder() as folder:
        assert looked(tmp_path, audit_dir=folder)["folder"].level is Level.OK
        folder.chmod(0o777)
        needs_care(looked(tmp_path, audit_dir=folder)["folder"], Level.FAULT, "is writable by every user")


def test_a_folder_that_cannot_be_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    needs_care(
        looked(tmp_path, audit_dir=tmp_path / "file/audit")["folder"], Level.FAULT, "cannot be written"
    )


def test_a_disk_with_no_room_is_a_fault(tmp_path: Path) -> None:
    """/proc is a file system on which nothing is free."""
    needs_care(looked(tmp_path, audit_dir=Path("/proc"))["room"], Level.FAULT, "0.0 GiB")


def test_a_disk_with_little_room_is_doubtful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LOW_SPACE_BYTES", 1 << 80)
    needs_care(looked(tmp_path)["room"], Level.WARNING, "GiB free on its disk")
