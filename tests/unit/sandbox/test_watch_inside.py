"""The list of a folder is made when the kernel gives notice, and again and again where it gives none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.sandbox import watch_inside
from egress.sandbox.watch import read_listing
from egress.sandbox.watch_inside import Notices, find_notices, is_noticed, make_list

MARK = b"mark"
MOUNTS = b"""\
21 1 0:20 / / rw,relatime - overlay overlay rw
22 21 0:21 / /proc rw - proc proc rw
23 21 8:1 /x /data rw - ext4 /dev/sda1 rw
24 23 0:30 / /data/shared rw - 9p none rw
25 21 0:31 / /two\\040words rw - virtiofs host rw
"""


@pytest.mark.parametrize(
    ("path", "noticed"),
    [
        (b"/workspace", True),
        (b"/data", False),
        (b"/data/own", True),
        (b"/data/shared/deep", False),
        (b"/data/sharedness", True),
        (b"/two words/x", False),
        (b"/", False),
    ],
)
def test_only_what_this_kernel_writes_is_noticed(path: bytes, noticed: bool) -> None:
    assert is_noticed(path, MOUNTS) is noticed
    assert is_noticed(path, b"") is False


@given(some.binary(max_size=200))
def test_any_table_of_mounts_is_read_or_refused(mounts: bytes) -> None:
    try:
        assert is_noticed(b"/workspace", mounts) in (True, False)
    except IndexError:
        """`find_notices` takes it for a table without notices."""


def test_a_list_is_that_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "line\nend").write_text("x")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    found = read_listing(make_list(os.fsencode(tmp_path), MARK, None), MARK)
    assert set(found) == {".", "a", "a/deep", "a/line\nend", "link", "pipe"}
    assert set(read_listing(make_list(os.fsencode(tmp_path / "pipe"), MARK, None), MARK)) == {"."}
    assert make_list(os.fsencode(tmp_path / "missing"), MARK, None) == b""


@contextmanager
def watching(path: Path, seconds: str = "0.05") -> Iterator[subprocess.Popen[bytes]]:
    program = Path(watch_inside.__file__).read_text("utf-8")
    words = [sys.executable, "-I", "-S", "-c", program, str(path), seconds, MARK.decode()]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def lists(process: subprocess.Popen[bytes]) -> Iterator[set[str]]:
    assert process.stdout is not None
    held = b""
    while piece := os.read(process.stdout.fileno(), 65536):
        held += piece
        while MARK + b"end\n" in held:
            made, _, held = held.partition(MARK + b"end\n")
            yield set(read_listing(made, MARK))


def test_a_change_at_any_depth_is_listed_without_polling(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with watching(tmp_path, "0.01") as process:
        found = lists(process)
        assert next(found) == {".", "a"}
        spent = Path(f"/proc/{process.pid}/schedstat")
        if find_notices(os.fsencode(tmp_path)) is not None:
            # It sleeps until it is told: it is given the processor no further time.
            settled(lambda: is_idle(spent))
        (tmp_path / "a" / "new").mkdir()
        assert next(each for each in found if "a/new" in each)
        (tmp_path / "a" / "new" / "file").write_text("x")
        assert next(each for each in found if "a/new/file" in each)
        (tmp_path / "a").rename(tmp_path / "b")
        assert next(each for each in found if "b/new/file" in each)
        (tmp_path / "b" / "new" / "late").write_text("x")
        assert next(each for each in found if "b/new/late" in each)


def test_what_is_removed_and_made_again_is_found(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with watching(place) as process:
        found = lists(process)
        assert next(found) == {"."}
        place.rmdir()
        assert next(found) == set()
        place.mkdir()
        (place / "file").write_text("x")
        assert next(each for each in found if "file" in each)


def test_too_many_folders_are_listed_without_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_inside, "MAX_FOLDERS", 3)
    notices = Notices()
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(OSError, match="too many"):
        make_list(os.fsencode(tmp_path), MARK, notices)
    notices.drain()
    assert make_list(os.fsencode(tmp_path / "0"), MARK, notices)
    notices.close()


def settled(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_idle(file: Path) -> bool:
    """Whether a process is not given the processor for a while, by its `schedstat`."""
    before = file.read_text()
    time.sleep(0.3)
    return file.read_text() == before
