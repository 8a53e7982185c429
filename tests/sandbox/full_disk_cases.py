"""What the handle says and leaves where the disk of a sandbox is full."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from egress.runtime.errors import SandboxStateError
from egress.runtime.spec import MIB
from egress.sandbox.errors import PathDeniedError
from egress.sandbox.handle import Sandbox

LARGE = bytes(5 * MIB)


def what_does_not_fit_is_told_and_nothing_of_it_stays(small: Sandbox) -> None:
    small.files.write("kept", "as it was")
    for path in ("new", "deep/new", "kept", "/tmp/new"):
        with pytest.raises(PathDeniedError, match="the disk is full"):
            small.files.write(path, LARGE)
    assert small.files.listdir(".") == ["deep", "kept"]
    assert small.files.listdir("deep") == small.files.listdir("/tmp") == []
    assert small.files.read_text("kept") == "as it was"


def what_is_copied_in_is_told_as_not_whole(small: Sandbox) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "large").write_bytes(LARGE)
        for source in (Path(folder), Path(folder) / "large"):
            with pytest.raises(SandboxStateError, match="was not completely unpacked"):
                small.files.copy_in(source, "copied")
            small.files.remove("copied", recursive=True)
    small.files.write("small", "fits")


def all_else_goes_on(small: Sandbox) -> None:
    with small.session() as session:
        assert session.exec("cat /dev/zero >a; cat /dev/zero >/tmp/a").exit_code
        assert session.exec("echo still").text == "still\n"
    assert small.exec("echo out; cat", input="in").text == "out\nin"
    with small.spawn("echo one; echo two") as process:
        assert [line.strip() for line in process.stdout.lines()] == ["one", "two"]
    with TemporaryDirectory() as folder:
        small.files.remove("a")
        small.files.write("b", "saved")
        small.save(Path(folder) / "saved.tar")
        small.restore(Path(folder) / "saved.tar", clear=True)
    assert small.files.read_text("b") == "saved"
    small.stop()
    small.start()
    assert small.files.listdir(".") == []


CASES = (
    what_does_not_fit_is_told_and_nothing_of_it_stays,
    what_is_copied_in_is_told_as_not_whole,
    all_else_goes_on,
)
