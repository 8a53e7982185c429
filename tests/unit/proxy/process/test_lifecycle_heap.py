"""What was freed goes back to the system, although something behind it is still in use."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from egress.proxy.process.lifecycle import trim_heap
from tests.cli.command import ROOT

PIECES = """
from pathlib import Path
from egress.proxy.process.lifecycle import trim_heap

def resident():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])

pieces = [bytes(9000) for _ in range(8000)]
kept = pieces[::50]
full = resident()
del pieces
trim_heap()
print(full, resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps it")
def test_holes_between_what_is_in_use_are_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PIECES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    full, after = map(int, done.stdout.split())
    assert after < full - 40_000, done.stdout


def test_where_the_library_knows_nothing_of_it_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    trim_heap()
