"""Bases out of what this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from egress.runtime.docker import image_tree
from egress.runtime.docker.image_tree import spool_archive
from egress.runtime.docker.images import bases
from egress.runtime.errors import UnsupportedError


def names() -> set[str]:
    with spool_archive(bases.python_tree()) as (archive, _), tarfile.open(fileobj=archive) as tar:
        return set(tar.getnames())


def test_the_base_of_python_has_pip_and_no_shell() -> None:
    found = names()
    assert image_tree.PYTHON_PATH.removeprefix("/") in found
    assert any(name.endswith("site-packages/pip/__main__.py") for name in found)
    assert not [name for name in found if name.endswith(("bin/sh", "bin/bash"))]


def test_the_base_of_python_has_what_compiled_packages_expect() -> None:
    found = {Path(name).name for name in names()}
    assert {"libc.so.6", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"} <= found


def test_the_source_of_packages_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    answers("http://mirror.example.test/debian trixie\nhttp://other.example.test/ sid\n", monkeypatch)
    assert bases._package_source() == ("http://mirror.example.test/debian", "trixie")


def test_a_machine_without_apt_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answers("", monkeypatch)
    with pytest.raises(UnsupportedError, match="no apt"):
        bases._package_source()


def test_a_base_of_packages_needs_debootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UnsupportedError, match="debootstrap is not installed"):
        bases._require_debootstrap()


def test_a_base_of_packages_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/sbin/debootstrap")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedError, match="needs root"):
        bases._require_debootstrap()


def answers(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess[str]([], 0, text, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
