"""`egress cp`: which of the two is where. What is copied is tested with the files of a sandbox."""

from __future__ import annotations

import io
import sys
import tarfile
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from egress.cli.main import main
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.remote import connect_if_served
from egress.runtime.spec import Spec
from tests.cli.sandboxes.conftest import serving
from tests.unit.sandbox.local_runtime import LocalRuntime

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    "words",
    [("one:a", "one:b"), ("a", "b"), ("./one:a", "b"), ("Not-a-name:a", "b")],
    ids=["both", "neither", "looks like one", "no name"],
)
def test_one_of_the_two_is_in_a_sandbox(words: tuple[str, str], folder: Path, capsys: Captured) -> None:
    assert main(["cp", "--runtime-dir", str(folder), *words]) == 2
    assert "SANDBOX:PATH" in capsys.readouterr().err


@pytest.mark.usefixtures("fleet")
def test_a_sandbox_that_is_not_there_is_named(folder: Path, capsys: Captured) -> None:
    assert main(["cp", "--runtime-dir", str(folder), "nobody:/etc/passwd", "here"]) == 3
    assert "no sandbox is named nobody" in capsys.readouterr().err


class WatchedStream(io.StringIO):
    """An error stream that knows when something was printed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Event()

    def write(self, text: str) -> int:
        self.is_written.set()
        return super().write(text)


class SlowRuntime(LocalRuntime):
    """Takes files when something was printed, however long that takes."""

    def __init__(self, folder: Path, said: WatchedStream) -> None:
        super().__init__(folder)
        self._said = said

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        assert self._said.is_written.wait(60)
        super().put(name, path, archive)


def test_a_copy_that_takes_long_says_so_and_only_on_the_error_stream(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    said = WatchedStream()
    monkeypatch.setattr(sys, "stderr", said)
    (tmp_path / "notes").write_text("much", "utf-8")
    with serving(SlowRuntime(tmp_path / "boxes", said), folder) as fleet:
        fleet.create(Spec(name="one", image="any"))
        fleet.start("one")
        words = [str(tmp_path / "notes"), "one:/workspace/notes"]
        assert main(["cp", "--runtime-dir", str(folder), *words]) == 0, said.getvalue()
    announced, ended = said.getvalue().splitlines()
    assert announced == f"egress: copying {tmp_path}/notes to one:/workspace/notes ..."
    assert ended.startswith(f"egress: copying {tmp_path}/notes to one:/workspace/notes took ")
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("box")
def test_the_bytes_of_a_copy_are_counted_as_they_move(folder: Path, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("notes")
        entry.size = 300_000
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    sent: list[int] = []
    received: list[int] = []
    fleet = connect_if_served(folder / SOCKET_NAME)
    assert fleet is not None
    with fleet:
        fleet.count_bytes = sent.append
        archive.seek(0)
        fleet.put("one", "/workspace", archive)
        fleet.count_bytes = received.append
        with fleet.get("one", "/workspace/notes") as back:
            size = len(back.read())
    assert sum(sent) == len(archive.getvalue())
    assert sum(received) == size > 300_000
    assert len(sent) > 1 < len(received)
