"""Packages are fetched with hashes, or not at all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from egress.runtime.docker.images import product_images
from egress.runtime.docker.images.product_images import fetch_wheels
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
    monkeypatch.setattr(product_images, "find_spec", lambda _: None)
    command = [*product_images._pip(), "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("pip ")


def test_says_where_there_is_no_pip_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(product_images, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no pip"):
        product_images._pip()
