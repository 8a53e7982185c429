"""The head file: two points, a MAC, and one write for each change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.audit.chain import Keys
from egress.audit.checkpoint import (
    CHECKPOINT_BYTES,
    FILE_NAME,
    Checkpoint,
    CheckpointFile,
    LogPosition,
    decode,
    read,
)
from tests.unit.audit.sample import KEY

KEYS = Keys.of(KEY)
HERE = LogPosition(7, 2, 1234, bytes(range(32)))
THERE = LogPosition(9, 2, 2345, bytes(32))


def known(directory: Path) -> Checkpoint | None:
    return decode(read(directory) or b"", KEYS.head)


def test_a_new_log_has_a_head_that_says_there_is_nothing(tmp_path: Path) -> None:
    CheckpointFile(tmp_path, KEYS.head, LogPosition(), is_fresh=True).close()
    assert known(tmp_path) == Checkpoint(LogPosition(), LogPosition())


def test_it_says_what_will_be_written_and_then_that_it_is(tmp_path: Path) -> None:
    head = CheckpointFile(tmp_path, KEYS.head, LogPosition(), is_fresh=True)
    head.announce(HERE)
    assert known(tmp_path) == Checkpoint(LogPosition(), HERE)
    head.commit(HERE)
    assert known(tmp_path) == Checkpoint(HERE, HERE)
    head.announce(THERE)
    assert known(tmp_path) == Checkpoint(HERE, THERE)
    head.close()


def test_a_head_of_another_key_or_another_use_is_none(tmp_path: Path) -> None:
    CheckpointFile(tmp_path, KEYS.head, HERE, is_fresh=True).close()
    data = read(tmp_path)
    assert data is not None
    assert decode(data, KEYS.head)
    assert decode(data, KEYS.line) is None
    assert decode(data, Keys.of(bytes(32)).head) is None


@pytest.mark.parametrize("size", [0, 1, CHECKPOINT_BYTES - 1, CHECKPOINT_BYTES + 1])
def test_a_head_of_another_size_is_none(size: int, tmp_path: Path) -> None:
    CheckpointFile(tmp_path, KEYS.head, HERE, is_fresh=True).close()
    data = (tmp_path / FILE_NAME).read_bytes()
    assert decode((data * 2)[:size], KEYS.head) is None


def test_a_damaged_head_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"x" * (CHECKPOINT_BYTES + 50))
    head = CheckpointFile(tmp_path, KEYS.head, HERE, is_fresh=False)
    head.commit(HERE)
    head.close()
    assert known(tmp_path) == Checkpoint(HERE, HERE)


def test_nobody_waits_at_a_pipe_in_its_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    with pytest.raises(OSError, match="not a plain file"):
        read(tmp_path)


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
