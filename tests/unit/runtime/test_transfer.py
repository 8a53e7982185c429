"""Files in and out, by the tar of a sandbox that does as it likes."""

from __future__ import annotations

import errno
import io
import itertools
import tarfile
import tempfile

import pytest

from egress.runtime import transfer
from egress.runtime.errors import (
    ArchiveError,
    ArchiveTooLargeError,
    ExecTimeoutError,
    PathNotFoundError,
    SandboxStateError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, ExecResult


class Sandbox:
    """Ends every command with a status, having written something."""

    def __init__(self, *statuses: int, out: bytes = b"") -> None:
        self._statuses = list(statuses)
        self._out = out
        self.asked: list[Command] = []

    def run(self, command: Command, output: Output) -> ExecResult:
        self.asked.append(command)
        if output.stdout is not None:
            output.stdout(self._out)
        return ExecResult(exit_code=self._statuses.pop(0))


def archive(name: str = "a", kind: bytes = tarfile.REGTYPE) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type = kind
        tar.addfile(entry)
    out.seek(0)
    return out


def test_paths_are_words_and_never_part_of_a_script() -> None:
    sandbox = Sandbox(0, 0, out=archive().getvalue())
    path = "/a b/$(id)/';x"
    transfer.put(sandbox.run, "one", path, archive())
    with transfer.get(sandbox.run, "one", path):
        pass
    assert [command.argv[-1] for command in sandbox.asked] == [path, path]
    assert all(path not in word for command in sandbox.asked for word in command.argv[:-1])


@pytest.mark.parametrize(
    ("statuses", "error"),
    [((2, 1), PathNotFoundError), ((2, 0), SandboxStateError), ((127,), UnsupportedError)],
)
def test_why_it_could_not_be_laid_down_is_told(statuses: tuple[int, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        transfer.put(Sandbox(*statuses).run, "one", "/x", archive())


@pytest.mark.parametrize(
    ("status", "error"), [(44, PathNotFoundError), (127, UnsupportedError), (2, SandboxStateError)]
)
def test_why_it_could_not_be_read_is_told(status: int, error: type[Exception]) -> None:
    with pytest.raises(error), transfer.get(Sandbox(status).run, "one", "/x"):
        pass


def test_what_comes_out_is_sifted_too() -> None:
    """Its tar is whatever the sandbox has put in that place."""
    with (
        pytest.raises(ArchiveError),
        transfer.get(Sandbox(0, out=archive("../x").getvalue()).run, "one", "/x"),
    ):
        pass
    sandbox = Sandbox(0, out=archive("x", tarfile.CHRTYPE).getvalue())
    with transfer.get(sandbox.run, "one", "/x") as file, tarfile.open(fileobj=file) as tar:
        assert tar.getnames() == []


def test_a_path_that_is_none_is_never_asked_for() -> None:
    sandbox = Sandbox()
    for path in ("relative", "/a/../b", "/a\nb"):
        with pytest.raises(SpecError):
            transfer.put(sandbox.run, "one", path, archive())
        with pytest.raises(SpecError), transfer.get(sandbox.run, "one", path):
            pass
    assert sandbox.asked == []


def test_what_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_MAX_RAW_BYTES", 100)
    with pytest.raises(ArchiveError), transfer.get(Sandbox(0, out=archive().getvalue()).run, "one", "/x"):
        pass


def test_a_machine_without_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer, "filter_archive", full)
    with pytest.raises(SandboxStateError, match="no space left"):
        transfer.put(Sandbox().run, "one", "/x", archive())
    with pytest.raises(SandboxStateError, match="no space left"), transfer.get(Sandbox(0).run, "one", "/x"):
        pass


def test_an_archive_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read for ever before, and left out."""
    monkeypatch.setattr(transfer, "_MAX_RAW_BYTES", 100)
    pieces = itertools.count()

    def run(_: Command, output: Output) -> ExecResult:
        while next(pieces) < 1000 and output.stdout is not None:
            output.stdout(b"x" * 30)
        return ExecResult(exit_code=0)

    with pytest.raises(ArchiveError, match="100 bytes"), transfer.get(run, "one", "/a"):
        pass
    assert next(pieces) == 4


def test_a_tar_that_does_not_come_to_its_end_is_ended() -> None:
    """H-4: a program there can stop it for ever."""
    asked: list[Command] = []

    def run(command: Command, _output: Output) -> ExecResult:
        asked.append(command)
        return ExecResult(exit_code=124, timed_out=True)

    with pytest.raises(ExecTimeoutError, match="did not finish"):
        transfer.put(run, "one", "/x", archive())
    with pytest.raises(ExecTimeoutError, match="did not finish"), transfer.get(run, "one", "/x"):
        pass
    assert [command.timeout for command in asked] == [3600, 3600]


def test_an_archive_has_a_size_that_it_may_have_and_entries_that_it_lacks() -> None:
    data = archive().getvalue()
    target = io.BytesIO()
    with pytest.raises(ArchiveTooLargeError, match=f"more than {len(data) - 1} bytes"):
        transfer.write_archive(Sandbox(0, out=data).run, "one", "/x", target, len(data) - 1)
    assert target.getvalue() == b""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
    with tempfile.TemporaryFile() as file:
        transfer.write_archive(Sandbox(0, out=data).run, "one", "/x", file, len(data), names)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            assert (len(names) > 0, tar.getnames()) == (True, [])
