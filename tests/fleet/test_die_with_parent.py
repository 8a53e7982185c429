"""What is tethered ends with whoever began it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from egress.fleet import die_with_parent
from tests.proxy.serve_process import until

_PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), "/bin/sleep", "1000"])
while open(f"/proc/{child.pid}/comm").read() != "sleep\\n":
    pass
print(child.pid, flush=True)
sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_when_its_parent_is_killed(number: signal.Signals) -> None:
    words = [sys.executable, "-c", _PARENT, die_with_parent.__file__]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(number)
        parent.wait()
    until(lambda: not is_alive(child), "the child to end")


def test_it_does_not_begin_for_one_that_has_gone() -> None:
    words = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getppid()), "/bin/echo", "begun"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"")


def test_it_becomes_the_program_with_its_words() -> None:
    words = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), "/bin/echo", "a b", "-c"]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"a b -c\n"
