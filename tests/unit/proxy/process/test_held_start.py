"""A proxy that another process holds back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_HELD = """
import os, sys
from egress.proxy.process.held_start import HeldStart
print("begun", flush=True)
held = HeldStart()
print("not for the parent", flush=True)
assert sys.stdin.read() == ""
if not held.wait():
    sys.exit(5)
held.report_serving()
os.system("echo a child; cat")
sys.exit(6)
"""


def held(before: bytes) -> tuple[int, bytes]:
    words = [sys.executable, "-c", _HELD]
    run = subprocess.run(words, input=before, capture_output=True, check=False, timeout=60)
    assert not run.stderr, run.stderr
    return run.returncode, run.stdout


def test_goes_on_at_the_word_and_reports_to_the_parent_alone() -> None:
    assert held(b"\n") == (6, b"begun\nserving\n")


def test_gives_up_with_the_parent() -> None:
    assert held(b"") == (5, b"begun\n")


def test_the_end_of_the_stream_is_the_end_of_the_process() -> None:
    """A program that outlives the process does not hold the stream open."""
    code = _HELD.replace('os.system("echo a child; cat")', 'os.system("sleep 1000 & echo $! >&2")')
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b"begun\nserving\n"
        left = int(process.stderr.readline())
        assert process.wait(60) == 6
        os.kill(left, 9)


def test_streams_that_are_closed_already_are_an_error() -> None:
    """Nothing is taken for the word of a parent."""
    code = "import os\nos.close(0)\nfrom egress.proxy.process.held_start import HeldStart\nHeldStart()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert run.returncode == 1
    assert b"Bad file descriptor" in run.stderr


@pytest.mark.parametrize("word", [b"x", b"\n\n\n"])
def test_any_byte_is_the_word(word: bytes) -> None:
    assert held(word)[0] == 6
