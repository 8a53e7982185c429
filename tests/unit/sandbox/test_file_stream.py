"""Files as streams: bounded in memory, of one version, and written whole or not at all."""

from __future__ import annotations

import os

import pytest

from egress.runtime.errors import ExecTimeoutError, PathNotFoundError, SandboxDiedError, SandboxStateError
from egress.sandbox import paths
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import PathKindError, PathOutsideError
from egress.sandbox.file_stream import _MAX_HELD_BYTES, FileReader, FileWriter
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.local_runtime import LocalRuntime

INCOMPLETE_STATUS = 49
DATA = os.urandom(5_000_000)


@pytest.fixture
def place(box: Sandbox, runtime: LocalRuntime) -> CommandRunner:
    return CommandRunner(runtime, box.name)


def part(reader: FileReader, first: int, count: int) -> bytes:
    reader.begin(first, count)
    return b"".join(iter(reader.read, b""))


def test_a_file_is_read_in_parts(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", DATA)
    for first, count in ((0, len(DATA)), (0, 1), (1, 4), (4_999_999, 1), (7, 0), (1_000_001, 3_000_000)):
        reader = FileReader(place, "a")
        assert reader.size == len(DATA)
        assert part(reader, first, count) == DATA[first : first + count]
        reader.close()


def test_a_file_that_is_replaced_is_read_as_it_was(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", "old content")
    reader = FileReader(place, "a")
    box.files.write("a", "new")
    assert part(reader, 4, 7) == b"content"


def test_a_file_that_shrinks_is_an_error(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", "12345")
    reader = FileReader(place, "a")
    box.exec("echo 1 > a")
    with pytest.raises(SandboxStateError):
        part(reader, 0, 5)


def test_a_slow_reader_slows_the_command(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", DATA)
    reader = FileReader(place, "a")
    reader.begin(0, len(DATA))
    pieces = list(iter(reader.read, b""))
    assert b"".join(pieces) == DATA
    # A piece of the command's output is added while there is room, so a little more may be there.
    assert max(map(len, pieces)) <= _MAX_HELD_BYTES + 65536


def test_a_reader_that_is_closed_early_ends_the_command(
    box: Sandbox, place: CommandRunner, runtime: LocalRuntime
) -> None:
    box.files.write("a", DATA)
    reader = FileReader(place, "a")
    reader.begin(0, len(DATA))
    assert reader.read()
    reader.close()
    assert reader._process.wait(20).exit_code != 0


def test_what_cannot_be_read_says_why(box: Sandbox, place: CommandRunner) -> None:
    box.exec("mkfifo pipe")
    for path, error in (("no", PathNotFoundError), ("pipe", PathKindError), ("../x", PathOutsideError)):
        with pytest.raises(error):
            FileReader(place, path)


@pytest.mark.parametrize("said", ["echo twelve", "yes", "printf 12", "echo -1"])
def test_a_size_of_another_program_is_refused(
    place: CommandRunner, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(paths, "FILES_SCRIPT", said)
    with pytest.raises(SandboxStateError):
        FileReader(place, "a")


def test_more_than_was_asked_for_is_dropped(
    box: Sandbox, place: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "FILES_SCRIPT", "echo 5; read -r line; printf 1234567")
    assert part(FileReader(place, "a"), 0, 5) == b"12345"


def test_streams_end_in_time(box: Sandbox, place: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "FILES_SCRIPT", "sleep 100")
    with pytest.raises(ExecTimeoutError, match=r"within 0\.2s"):
        FileReader(place, "a", timeout=0.2)
    with pytest.raises(ExecTimeoutError, match=r"within 0\.2s"):
        FileWriter(place, "a", timeout=0.2).finish()


def test_a_sandbox_that_ends_is_told(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", DATA)
    reader, writer = FileReader(place, "a"), FileWriter(place, "b")
    box.stop()
    with pytest.raises(SandboxDiedError):
        part(reader, 0, 5)
    with pytest.raises(SandboxDiedError):
        writer.finish()
    writer.abort()


def test_a_file_is_written_whole_or_not_at_all(box: Sandbox, place: CommandRunner) -> None:
    box.files.write("a", "old", mode=0o640)
    half = FileWriter(place, "a")
    half.write(b"half")
    half.abort()
    assert (box.files.listdir(), box.files.read("a")) == (["a"], b"old")
    whole = FileWriter(place, "a")
    whole.write(b"wh")
    whole.write(b"ol")
    whole.finish()
    assert (box.files.read("a"), box.files.stat("a").mode) == (b"whol", 0o640)


def test_the_end_of_a_writer_that_was_killed_is_not_the_end_of_the_content(
    box: Sandbox, place: CommandRunner
) -> None:
    box.files.write("a", "old")
    for content in (b"", b"half", b"\0" * 100):
        writer = FileWriter(place, "a")
        writer.write(content)
        writer._process.close_input()
        assert writer._process.wait(20).exit_code == INCOMPLETE_STATUS
    assert (box.files.listdir(), box.files.read("a")) == (["a"], b"old")


@pytest.mark.parametrize("content", [b"", b"\n", b"\0", b"a" * 24, DATA])
def test_any_content_arrives_as_it_is(box: Sandbox, place: CommandRunner, content: bytes) -> None:
    writer = FileWriter(place, "a")
    writer.write(content)
    writer.finish()
    assert box.files.read("a") == content


def test_what_cannot_be_written_says_why(box: Sandbox, place: CommandRunner) -> None:
    for path, error in ((".", PathKindError), ("../x", PathOutsideError)):
        writer = FileWriter(place, path)
        writer.write(DATA)
        with pytest.raises(error):
            writer.finish()
