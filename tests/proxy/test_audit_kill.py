"""A process that writes the audit log and is killed, for real: SIGKILL, no notice, no last words."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.audit.sample import files, kinds, opened, read, sound
from tests.unit.audit.tampering import KINDS, Change, changeable, is_found, is_in_window

ROOT = Path(__file__).parents[2]

WRITES_WITHOUT_END = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.unit.audit.sample import FACTS, OPENING, RECORD, opened

name = sys.argv[2]
sink = opened(Path(sys.argv[1]), in_flight=64, rotate_at=20_000)
number = 0
while True:
    tickets = []
    for _ in range(int(sys.argv[3])):
        request = f"{name}-{number}"
        number += 1
        tickets.append((sink.begin(replace(OPENING, request=request)), request))
        # From here on it may be sent, so from here on it must be told.
        print(request, flush=True)
    for ticket, request in tickets:
        sink.exchange(ticket, RECORD, replace(FACTS, request=request))
    sink.flush()
"""


def killed(log: Path, name: str, together: int, after: int) -> list[str]:
    """Let a process write until it has said so many requests, and kill it; returns what it has said."""
    command = [sys.executable, "-c", WRITES_WITHOUT_END, str(log), name, str(together)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(after)]
        process.kill()
        rest = process.stdout.read().split("\n")
    return said + rest[:-1]


@pytest.mark.parametrize("together", [1, 7])
def test_every_request_that_could_be_sent_is_told_exactly_once(together: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    said: list[str] = []
    for number in range(5):
        said += killed(log, f"p{number}", together, after=37 + 11 * number)
    opened(log).close()
    sound(log)
    told = Counter(str(line["request"]) for line in read(log) if "request" in line)
    assert set(said) <= told.keys()
    assert set(told.values()) == {1}
    # Each process may have begun one request that it had no time to say.
    assert len(told) <= len(said) + 5
    assert set(kinds(log)) <= {"exchange", "lost", "gap", "rotated"}
    assert {line["kind"] for line in read(log) if line["event"] == "gap"} <= {"killed"}


def tampered(log: Path, where: float) -> Iterator[tuple[Path, Change, bytes, bytes]]:
    """Each kind of change of each file, one at a time; it is undone before the next."""
    for file in changeable(log):
        before = file.read_bytes()
        for kind in KINDS:
            change = Change(kind, where, 1)
            after = change.apply(before) if before else b"x"
            if after != before:
                file.write_bytes(after)
                yield file, change, before, after
                file.write_bytes(before)


@pytest.mark.parametrize("where", [0.02, 0.57, 0.999])
def test_what_is_changed_after_a_real_kill_is_found(where: float, tmp_path: Path) -> None:
    """Under load, in several files; before the next start the window of the last write alone is open."""
    log, unseen = tmp_path / "log", 0
    for number in range(2):
        killed(log, f"p{number}", 20, after=150 + 30 * number)
        sound(log)
        for file, change, before, after in tampered(log, where):
            if not is_found(log):
                assert is_in_window(log, file, before, after), (file.name, change)
                unseen += 1
        sound(log)
    assert len(files(log)) > 4
    assert unseen <= 2 * len(KINDS)
    opened(log).close()
    sound(log)
    for file, change, _, _ in tampered(log, where):
        assert is_found(log), (file.name, change)
