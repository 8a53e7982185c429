"""Folders and small keys: what a start would refuse is found, and nothing is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.doctor import folders
from egress.doctor.diagnosis import Diagnosis, Level
from egress.policy.trust import TrustedFiles
from egress.proxy.process.password_and_placeholder_key import read_or_make_key
from tests.cli.command import put
from tests.unit.doctor.proxy_setups import RULES, by_name, is_content, needs_care, patient


def looked(folder: Path, **flags: object) -> dict[str, Diagnosis]:
    return by_name(folders.check(patient(folder, settings=flags)))


def made(folder: Path) -> tuple[Path, Path]:
    for name in ("state", "run"):
        (folder / name).mkdir(mode=0o700)
    return folder / "state", folder / "run"


def test_folders_that_are_not_there_are_fine_and_are_not_made(tmp_path: Path) -> None:
    assert is_content(looked(tmp_path).values())
    assert list(tmp_path.iterdir()) == []


def test_folders_of_ones_own_are_fine(tmp_path: Path) -> None:
    made(tmp_path)
    found = looked(tmp_path)
    assert {name: item.level for name, item in found.items()} == {"state": Level.OK, "runtime": Level.OK}


def test_what_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    file = put(tmp_path / "file", "")
    found = looked(tmp_path, state_dir=file / "state", runtime_dir=file / "run")
    needs_care(found["state"], Level.FAULT)
    needs_care(found["runtime"], Level.FAULT)


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_state_folder_that_others_can_write_is_a_fault(mode: int, tmp_path: Path) -> None:
    state, _ = made(tmp_path)
    state.chmod(mode)
    needs_care(looked(tmp_path)["state"], Level.FAULT, "open to other users")


def test_a_state_folder_that_cannot_be_written_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere: here the system says no to us."""
    made(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    needs_care(looked(tmp_path)["state"], Level.FAULT, "cannot be written")


def test_a_runtime_folder_that_others_may_enter_is_doubtful(tmp_path: Path) -> None:
    _, run = made(tmp_path)
    run.chmod(0o755)
    needs_care(looked(tmp_path)["runtime"], Level.WARNING, "0755")


def test_a_runtime_folder_that_is_none_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "run", "")
    needs_care(looked(tmp_path)["runtime"], Level.FAULT, "is not your own folder")


def test_a_runtime_folder_that_cannot_be_looked_at_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "file", "")
    found = looked(tmp_path, runtime_dir=tmp_path / "file/run")
    needs_care(found["runtime"], Level.FAULT, "cannot be inspected")


def test_a_runtime_folder_of_somebody_else_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    needs_care(looked(tmp_path)["runtime"], Level.FAULT, "is not your own folder")


def test_a_path_that_is_too_long_for_a_socket_is_a_fault(tmp_path: Path) -> None:
    needs_care(looked(tmp_path, runtime_dir=Path("/tmp") / ("x" * 90))["runtime"], Level.FAULT, "too long")


def test_the_list_of_trusted_files_is_looked_at(tmp_path: Path) -> None:
    state, _ = made(tmp_path)
    TrustedFiles(state).add(put(tmp_path / "hosts.yaml", RULES))
    assert looked(tmp_path)["trusted files"].level is Level.OK
    TrustedFiles(state).file.chmod(0o644)
    needs_care(looked(tmp_path)["trusted files"], Level.FAULT, "is open to other users")


def test_the_key_of_the_stand_ins_is_looked_at(tmp_path: Path) -> None:
    state, _ = made(tmp_path)
    file = state / "placeholders/default.key"
    key = read_or_make_key(file)
    assert looked(tmp_path)["stand-ins"].level is Level.OK
    file.chmod(0o640)
    needs_care(looked(tmp_path)["stand-ins"], Level.FAULT, "other users")
    file.chmod(0o600)
    file.write_bytes(key[:5])
    needs_care(looked(tmp_path)["stand-ins"], Level.FAULT, "damaged")


def test_the_password_of_the_proxy_is_looked_at_and_not_shown(tmp_path: Path) -> None:
    file = put(tmp_path / "password", "open-sesame-open-sesame\n")
    file.chmod(0o600)
    found = looked(tmp_path, password_file=file)["password"]
    assert found.level is Level.OK
    assert "sesame" not in str(found)
    file.chmod(0o644)
    needs_care(looked(tmp_path, password_file=file)["password"], Level.FAULT, "other users")
    put(file, "short").chmod(0o600)
    short = looked(tmp_path, password_file=file)["password"]
    needs_care(short, Level.FAULT, "not one to rely on")
    needs_care(looked(tmp_path, password_file=tmp_path / "none")["password"], Level.FAULT)


def test_what_cannot_be_made_is_told_with_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere: here the system says no to us."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = looked(tmp_path)
    for name in ("state", "runtime"):
        needs_care(found[name], Level.FAULT, f"cannot be created in {tmp_path}")
