"""Asking a proxy that runs, where none does. A real one is asked in tests/proxy/process/test_lifecycle.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.command import egress


def test_without_a_proxy_it_says_where_it_asked(tmp_path: Path) -> None:
    outcome = egress("kill", "api.example.com", cwd=tmp_path)
    assert outcome.status == 3
    assert "no proxy is running" in outcome.err
    assert "run/control.sock" in outcome.err
    assert "egress serve" in outcome.err


def test_the_socket_of_a_proxy_that_was_killed_is_no_proxy(tmp_path: Path) -> None:
    code = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    left = tmp_path / "control.sock"
    subprocess.run([sys.executable, "-c", code, str(left)], check=True)
    assert left.is_socket()
    outcome = egress("kill", "x", "--runtime-dir", str(tmp_path), cwd=tmp_path)
    assert outcome.status == 3
    assert "no proxy is running" in outcome.err


def test_what_is_no_socket_is_said(tmp_path: Path) -> None:
    (tmp_path / "control.sock").write_text("", encoding="utf-8")
    outcome = egress("kill", "x", "--runtime-dir", str(tmp_path), cwd=tmp_path)
    assert outcome.status == 3
    assert outcome.err.startswith("error: ")


def test_a_folder_whose_name_is_too_long_for_a_socket_holds_no_proxy(tmp_path: Path) -> None:
    outcome = egress("kill", "x", "--runtime-dir", str(tmp_path / ("x" * 100)), cwd=tmp_path)
    assert outcome.status == 3
    assert "no proxy is running" in outcome.err
