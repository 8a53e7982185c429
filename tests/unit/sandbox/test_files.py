"""Files are read and written, and relative paths stay in the workspace."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.runtime.errors import ExecTimeoutError
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import Command, ExecResult
from egress.sandbox.files import FileStat, parse_stat
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case
from tests.unit.sandbox.local_runtime import LocalRuntime


@pytest.mark.parametrize("promise", CASES["files"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)


def test_a_time_that_no_calendar_has_is_the_nearest_one() -> None:
    """Whoever owns a file says of when it is, and some file systems keep any number."""
    there = parse_stat(b"81a4 3 1700000000 \n")
    assert there == FileStat(
        kind="file", size=3, mode=0o644, modified=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    )
    assert parse_stat(b"81a4 3 99999999999999 l").modified.year == MAXYEAR
    assert parse_stat(b"41ed 3 -99999999999999 ").modified.year == MINYEAR


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"81a4 3", b"file 3 4", b"81a4 many 4", b"81a4 3 now"),
        *(b"81a4 -5 0", b"-81a4 5 0", b"%s 5 0" % (b"8" * 40), b"81a4 %s 0" % (b"9" * 20), b"81a4 1_0 0"),
    ],
)
def test_what_is_no_answer_is_told_and_not_taken_for_one(said: bytes) -> None:
    """A program in the sandbox can answer in place of `stat`, with a negative size for example."""
    with pytest.raises(ValueError, match=r"values to unpack|not the facts"):
        parse_stat(said)


@given(st.lists(st.from_regex(rb"[-+_0-9a-fx]{0,40}", fullmatch=True), min_size=3, max_size=4))
def test_whatever_is_answered_is_a_size_that_a_file_can_have_or_an_error(words: list[bytes]) -> None:
    with suppress(ValueError):
        found = parse_stat(b" ".join(words))
        assert 0 <= found.size < 10**19
        assert 0 <= found.mode <= 0o7777


def test_what_does_not_come_to_its_end_is_ended(box: Sandbox) -> None:
    """H-4: a program there can stop ours for ever."""
    silent, mouth = os.pipe()
    with os.fdopen(silent, "rb", buffering=0) as source:
        with pytest.raises(ExecTimeoutError, match=r"within 0\.5s"):
            box.files.write("x", cast("BinaryIO", source), timeout=0.5)
        os.close(mouth)
    assert not box.files.exists("x")


class Listed(LocalRuntime):
    """Keeps how long each command may take."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.limits: list[float | None] = []

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        self.limits.append(command.timeout)
        return super().exec(name, command, output)


def test_nothing_that_is_done_with_files_may_take_for_ever(tmp_path: Path) -> None:
    runtime = Listed(tmp_path)
    (tmp_path / "host").write_text("x")
    with Sandbox.create(image="any", runtime=runtime) as box:
        box.files.write("a", "x")
        box.files.write("a", io.BytesIO(b"y"))
        box.files.read("a")
        box.files.stat("a")
        box.files.exists("a")
        box.files.listdir()
        box.files.mkdir("b")
        box.files.rename("a", "b/a")
        box.files.copy_in(tmp_path / "host", "c")
        box.files.copy_out("c", tmp_path / "out")
        box.files.remove("b", recursive=True)
    assert len(runtime.limits) > 10
    assert None not in runtime.limits
