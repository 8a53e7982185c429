"""Pruning: whole files from the oldest on, and a chain that still holds."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from egress.audit import Verification
from egress.audit import files as disk
from egress.audit.verify import verify
from egress.errors import ContentError, UnreadableError, UsageError
from egress.review import pruning
from egress.review.pruning import Pruned, Retention, record_pruning
from egress.review.timestamps import HOUR
from tests.unit.audit.sample import KEY, Clock, files, full_at, opened, read
from tests.unit.review.sample import START, Writing, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write(tmp_path / "log", rotate_at=900)
    assert len(files(tmp_path / "log")) > 5
    return tmp_path / "log"


def prune(
    log: Path, key: bytes, keep: Retention, *, is_trial: bool = False, is_forced: bool = False
) -> Pruned:
    return pruning.prune(log, key, keep, by="root", now=START, is_trial=is_trial, is_forced=is_forced)


def check(log: Path) -> Verification:
    found = verify(log, KEY)
    assert found.is_sound, found.faults
    return found


def test_the_rest_is_sound_and_goes_on(log: Path) -> None:
    there = [file.name for file in files(log)]
    found = prune(log, KEY, Retention(files=3))
    assert found.files == tuple(there[:-3])
    assert found.first == there[-3]
    assert [file.name for file in files(log)] == there[-3:]
    assert found.kept == sum(file.stat().st_size for file in files(log))
    check(log)
    writing = Writing(log)
    writing.exchange("r-9")
    writing.close()
    assert check(log).newest > 8


def test_a_trial_deletes_nothing(log: Path) -> None:
    before = sorted(path.name for path in log.iterdir())
    assert prune(log, KEY, Retention(files=1), is_trial=True).files
    assert sorted(path.name for path in log.iterdir()) == before


def test_files_go_by_the_time_of_their_newest_line(log: Path) -> None:
    assert prune(log, KEY, Retention(before=START)).files == ()
    found = prune(log, KEY, Retention(before=START + 3 * HOUR))
    assert 0 < len(found.files) < 5
    check(log)


def test_files_go_by_size_and_the_newest_always_stays(log: Path) -> None:
    total = sum(file.stat().st_size for file in files(log))
    found = prune(log, KEY, Retention(size=total - 1))
    assert len(found.files) == 1
    prune(log, KEY, Retention(size=1, files=1, before=1 << 60))
    assert len(files(log)) == 1
    check(log)


def test_a_log_that_is_not_sound_is_evidence(log: Path) -> None:
    file = files(log)[1]
    file.write_bytes(file.read_bytes().replace(b"agent-1", b"agent-2", 1))
    with pytest.raises(ContentError, match="is damaged"):
        prune(log, KEY, Retention(files=1))
    assert prune(log, KEY, Retention(files=2), is_forced=True).files
    check(log)


def test_with_another_key_nothing_is_deleted(log: Path) -> None:
    there = len(files(log))
    with pytest.raises(UnreadableError, match="not written with this key"):
        prune(log, bytes(32), Retention(files=1))
    with pytest.raises(ContentError, match="no line of"):
        prune(log, bytes(32), Retention(files=1), is_forced=True)
    assert len(files(log)) == there


@pytest.mark.parametrize("is_forced", [True, False])
def test_where_there_is_no_log_it_says_so(is_forced: bool, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no audit log"):
        prune(tmp_path, KEY, Retention(files=1), is_forced=is_forced)
    with pytest.raises(UnreadableError, match="no such file"):
        prune(tmp_path / "none", KEY, Retention(files=1), is_forced=is_forced)


def test_a_policy_that_keeps_everything_is_refused(log: Path) -> None:
    with pytest.raises(UsageError):
        prune(log, KEY, Retention())


def test_two_never_delete_at_once(log: Path) -> None:
    before = len(files(log))
    descriptor = os.open(files(log)[0], os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(UnreadableError, match="right now"):
        prune(log, KEY, Retention(files=1))
    sink = opened(log, rotate_at=900, keep=2)
    sink.event("started")
    sink.flush()
    for _ in range(6):
        sink.event("reloaded")
        sink.flush()
    assert len(files(log)) > before, "the proxy leaves the old files for later"
    os.close(descriptor)
    for _ in range(6):
        sink.event("reloaded")
        sink.flush()
    assert len(files(log)) == 2
    sink.close()
    check(log)


def told(log: Path) -> list[object]:
    """Who is named by the lines that tell of it."""
    return [line["by"] for line in read(log) if line["event"] == "pruned"]


def test_while_the_proxy_runs_it_can_be_pruned_and_the_proxy_tells_of_it(log: Path) -> None:
    writing = Writing(log, 900)
    writing.exchange("r-9")
    prune(log, KEY, Retention(files=2))
    assert record_pruning(log, KEY, Clock())
    assert told(log) == []
    writing.sink.tick()
    writing.exchange("r-10")
    writing.close()
    assert told(log) == ["root"]
    check(log)


def test_where_no_proxy_runs_the_line_is_written_at_once(log: Path) -> None:
    prune(log, KEY, Retention(files=2))
    found = check(log).pruning
    assert found is not None
    assert (found.by, found.at, found.is_forced) == ("root", START * 1000, False)
    assert record_pruning(log, KEY, Clock())
    assert told(log) == ["root"]
    assert record_pruning(log, KEY, Clock())
    assert told(log) == ["root"]
    check(log)


def test_an_anchor_that_was_changed_since_is_not_called_recorded(log: Path) -> None:
    prune(log, KEY, Retention(files=2))
    (log / disk.ANCHOR).write_bytes(b"something else")
    assert not record_pruning(log, KEY, Clock())
    assert told(log) == []


def test_nothing_is_recorded_where_nothing_was_deleted(log: Path) -> None:
    before = len(read(log))
    assert record_pruning(log, KEY, Clock())
    assert len(read(log)) == before


def test_it_is_left_to_the_next_start_where_it_cannot_be_done(log: Path) -> None:
    prune(log, KEY, Retention(files=2))
    assert not record_pruning(log, bytes(32), Clock()), "another key"
    with full_at(files(log)[-1].stat().st_size):
        assert not record_pruning(log, KEY, Clock()), "no room for a line"
    assert told(log) == []
    assert record_pruning(log, KEY, Clock())
    assert told(log) == ["root"]
    check(log)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root deletes for somebody else")
def test_root_makes_no_file_in_the_log_of_somebody_else(log: Path) -> None:
    """The proxy could not write to it."""
    for path in (log, *log.iterdir()):
        os.chown(path, 65534, 65534)
    prune(log, KEY, Retention(files=2))
    assert not record_pruning(log, KEY, Clock())
    assert told(log) == []
    assert {path.stat().st_uid for path in (log, *log.iterdir())} == {65534}
    held = disk.lock(log)
    assert record_pruning(log, KEY, Clock()), "who writes it does so"
    os.close(held)


def test_what_was_forced_is_said_to_be(log: Path) -> None:
    file = files(log)[1]
    file.write_bytes(file.read_bytes().replace(b"agent-1", b"agent-2", 1))
    prune(log, KEY, Retention(files=2), is_forced=True)
    found = check(log).pruning
    assert found is not None
    assert found.is_forced


def test_an_anchor_that_was_changed_makes_the_log_evidence(log: Path) -> None:
    prune(log, KEY, Retention(files=4))
    anchor = log / disk.ANCHOR
    data = bytearray(anchor.read_bytes())
    data[60] ^= 1
    anchor.write_bytes(data)
    with pytest.raises(ContentError, match="is damaged"):
        prune(log, KEY, Retention(files=2))
    prune(log, KEY, Retention(files=2), is_forced=True)
    assert record_pruning(log, KEY, Clock())
    assert check(log).pruning is not None
