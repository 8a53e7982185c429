"""Images made of what this machine has."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from egress.runtime.docker import door_container, image_tree
from egress.runtime.docker.image_tree import ImageTree, program_tree, small_system_tree, spool_archive
from egress.runtime.errors import UnsupportedError


def members(tree: ImageTree) -> dict[str, tarfile.TarInfo]:
    with spool_archive(tree) as (archive, _), tarfile.open(fileobj=archive) as tar:
        return {each.name: each for each in tar.getmembers()}


def test_the_door_has_what_its_program_imports_and_little_else() -> None:
    found = members(program_tree(door_container.PROGRAM_FILE))
    assert {"program.py", image_tree.PYTHON_PATH.removeprefix("/")} <= found.keys()
    names = {Path(name).name.split(".")[0] for name in found}
    assert {"socket", "_socket", "selectors", "os"} <= names
    assert not names & {"ssl", "subprocess", "http", "ctypes", "sh"}
    assert len(found) < 120


@pytest.mark.system("chroot", "coreutils")
def test_a_program_runs_in_it_alone(tmp_path: Path) -> None:
    with (
        spool_archive(program_tree(door_container.PROGRAM_FILE)) as (archive, _),
        tarfile.open(fileobj=archive) as tar,
    ):
        tar.extractall(tmp_path, filter="fully_trusted")
    command = [
        "unshare",
        "-Ur",
        "chroot",
        str(tmp_path),
        image_tree.PYTHON_PATH,
        "-I",
        "-S",
        "/program.py",
        "/no",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert "FileNotFoundError" in done.stderr


def test_equal_contents_have_equal_digests() -> None:
    digests = []
    for _ in range(2):
        with spool_archive(program_tree(door_container.PROGRAM_FILE)) as (_, digest):
            digests.append(digest)
    other = program_tree(door_container.PROGRAM_FILE)
    other.text("more", b"x")
    with spool_archive(other) as (_, digest):
        digests.append(digest)
    assert digests[0] == digests[1] != digests[2]


def test_programs_come_with_the_libraries_they_name() -> None:
    found = members(small_system_tree(["sh", "no-such-program"], python=False))
    assert found["usr/bin/sh"].mode == 0o755
    assert any("libc." in name or "libc-" in name for name in found)
    assert "usr/bin/no-such-program" not in found
    # Any user may be asked for.
    assert (found["home/sandbox"].mode, found["tmp"].mode) == (0o1777, 0o1777)
    assert found["bin"].linkname == "usr/bin"


def test_a_module_is_compiled_for_use_without_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("answer = 42\n")
    (tmp_path / "sample.py").write_text("this is no Python\n")
    tree = ImageTree()
    tree.module("mine.py", tmp_path / "mine.py")
    tree.module("sample.py", tmp_path / "sample.py")
    out = io.BytesIO()
    tree.write(out)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        compiled = tar.extractfile("mine.pyc")
        assert compiled is not None
        (tmp_path / "alone").mkdir()
        (tmp_path / "alone/mine.pyc").write_bytes(compiled.read())
        assert tar.getmember("sample.pyc").size == 0
    code = "import sys; sys.path.insert(0, sys.argv[1]); import mine; print(mine.answer)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "alone")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "42\n"


def test_a_program_that_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UnsupportedError, match="cannot run the door"):
        program_tree(tmp_path / "broken.py")
