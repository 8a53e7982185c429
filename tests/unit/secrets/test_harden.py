"""A real process, hardened, and another one of the same ordinary user that tries to look into it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.secrets.harden import harden

ROOT = Path(__file__).parents[3]

# Root may read everything: both step down to the same ordinary user, and are dumpable as after any start.
STEP_DOWN = """
import ctypes, os, resource, sys
from egress.secrets.harden import harden
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""
TARGET = """
if sys.argv[1] == "hardened":
    harden()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE), flush=True)
sys.stdin.read()
"""
READER = """
for what in ("environ", "mem", "maps"):
    try:
        with open(f"/proc/{sys.argv[1]}/{what}", "rb") as file:
            file.fileno()
        print(what)
    except PermissionError:
        pass
"""


@contextmanager
def target(kind: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", STEP_DOWN + TARGET, kind]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.communicate()


def readable_by_a_neighbour(pid: int) -> list[str]:
    command = [sys.executable, "-c", STEP_DOWN + READER, str(pid)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_process_of_the_same_user_cannot_read_its_memory() -> None:
    """The plain process is the control: it can be read."""
    with target("plain") as (process, said):
        assert said.startswith("1 ")
        assert "environ" in readable_by_a_neighbour(process.pid)
    with target("hardened") as (process, said):
        assert said == "0 0 0"
        assert readable_by_a_neighbour(process.pid) == []


def test_a_crash_leaves_no_core() -> None:
    with target("hardened") as (process, _):
        process.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -os.WTERMSIG(status)
        assert os.WTERMSIG(status) == signal.SIGSEGV
        assert not os.WCOREDUMP(status)


def test_a_system_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    # By its full name: the package exports a function of that name.
    monkeypatch.setattr(sys.modules["egress.secrets.harden"], "_prctl", lambda _: -1)
    with pytest.raises(UnreadableError, match="the memory of this process cannot be protected"):
        harden()
