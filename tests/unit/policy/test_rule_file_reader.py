"""Whatever may stand at a path, as real files: each kind has its own clear error, and none blocks."""

from __future__ import annotations

import os
import stat
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.policy.rule_file_reader import MAX_FILE_BYTES, NotTextError, read_text

NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own may not be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root reads everything, so root steps down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "hosts.yaml"
    path.write_bytes(data)
    return path


def test_returns_the_text_as_it_stands(tmp_path: Path) -> None:
    data = "version: 1\n# grüße, 世界\n"
    assert read_text(written(tmp_path, data.encode())) == data


def test_keeps_line_ends_as_they_are(tmp_path: Path) -> None:
    assert read_text(written(tmp_path, b"version: 1\r\nhosts: {}\r\n")) == "version: 1\r\nhosts: {}\r\n"


def test_leaves_out_the_byte_order_mark_of_utf8(tmp_path: Path) -> None:
    assert read_text(written(tmp_path, b"\xef\xbb\xbfversion: 1\n")) == "version: 1\n"


def test_an_empty_file_is_an_empty_text(tmp_path: Path) -> None:
    """That it says nothing is for the rules to find."""
    assert read_text(written(tmp_path, b"")) == ""


def test_follows_a_symbolic_link_to_a_file(tmp_path: Path) -> None:
    """Mounted configuration is made of such links."""
    link = tmp_path / "link.yaml"
    link.symlink_to(written(tmp_path, b"version: 1\n"))
    assert read_text(link) == "version: 1\n"


# What the environment did ---------------------------------------------------------------------


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"file not found: .*/hosts\.yaml") as caught:
        read_text(tmp_path / "hosts.yaml")
    assert "egress init" in caught.value.hint
    assert caught.value.exit_status == 3


def test_a_link_to_nowhere_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(UnreadableError, match="file not found"):
        read_text(tmp_path / "link.yaml")


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("link.yaml")
    with pytest.raises(UnreadableError, match="cannot be read: too many levels of symbolic links"):
        read_text(tmp_path / "link.yaml")


def test_a_file_in_the_place_of_a_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"a part of .* is not a directory"):
        read_text(written(tmp_path, b"") / "hosts.yaml")


def test_a_file_without_permission_is_said(open_folder: Path) -> None:
    path = written(open_folder, b"version: 1\n")
    with as_an_ordinary_user():
        assert read_text(path) == "version: 1\n"
    path.chmod(0)
    with as_an_ordinary_user(), pytest.raises(UnreadableError, match="permission denied"):
        read_text(path)


def test_a_directory_without_permission_is_said(open_folder: Path) -> None:
    path = written(open_folder, b"version: 1\n")
    open_folder.chmod(0o600)
    with as_an_ordinary_user(), pytest.raises(UnreadableError, match="permission denied"):
        read_text(path)


def test_a_directory_is_not_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is a directory"):
        read_text(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes into this pipe: reading it would last for ever."""
    os.mkfifo(tmp_path / "hosts.yaml")
    with pytest.raises(UnreadableError, match="a pipe, a socket or a device"):
        read_text(tmp_path / "hosts.yaml")


def test_a_socket_is_refused(tmp_path: Path) -> None:
    os.mknod(tmp_path / "hosts.yaml", 0o600 | stat.S_IFSOCK)
    with pytest.raises(UnreadableError, match="a pipe, a socket or a device"):
        read_text(tmp_path / "hosts.yaml")


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(UnreadableError, match="a pipe, a socket or a device"):
        read_text(Path(device))


def test_a_pipe_that_takes_the_place_of_a_file_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening another thing may be put there."""
    file = written(tmp_path, b"version: 1\n").stat()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(Path, "stat", lambda _self: file)
    with pytest.raises(UnreadableError, match="a pipe, a socket or a device"):
        read_text(tmp_path / "pipe")


def test_a_nul_in_the_path_is_no_crash() -> None:
    with pytest.raises(UnreadableError, match="is not a path"):
        read_text(Path("hosts\0.yaml"))


def test_an_error_shows_a_strange_name_on_one_plain_line(tmp_path: Path) -> None:
    """A file name may hold terminal codes, line ends and bytes that are no text."""
    name = os.fsdecode(b"a\x1b[2J\n\xff.yaml")
    with pytest.raises(UnreadableError) as caught:
        read_text(tmp_path / name)
    assert caught.value.message == f"file not found: {tmp_path}/a?[2J??.yaml"


# What stands in the file ------------------------------------------------------------------------


def not_text(path: Path) -> tuple[str, str, str]:
    """Place within the file, message and hint of the finding."""
    with pytest.raises(NotTextError) as caught:
        read_text(path)
    finding = caught.value.finding
    assert finding.place.file == str(path)
    assert caught.value.exit_status == 1
    return f"{finding.place.line}:{finding.place.column}", finding.message, finding.hint


def sparse(path: Path, size: int) -> Path:
    """A file of that size, of which the disk holds nothing."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def peak_of(path: Path) -> int:
    """How many bytes it takes to refuse a file as too large."""
    tracemalloc.start()
    try:
        assert not_text(path) == ("1:1", "the file is larger than 16 MiB", "split it into several files")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_too_large_is_refused_by_its_size(tmp_path: Path) -> None:
    """Before one byte of it is read."""
    assert peak_of(sparse(tmp_path / "hosts.yaml", 50 * 1024**2)) < 1024**2


def test_a_file_that_grows_meanwhile_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = written(tmp_path, b"version: 1\n").stat()
    large = sparse(tmp_path / "large.yaml", 100 * 1024**2)
    monkeypatch.setattr(Path, "stat", lambda _self: small)
    monkeypatch.setattr(os, "fstat", lambda _descriptor: small)
    assert peak_of(large) < 3 * MAX_FILE_BYTES


def test_a_file_as_large_as_may_be_is_read(tmp_path: Path) -> None:
    assert len(read_text(written(tmp_path, b"#" * MAX_FILE_BYTES))) == MAX_FILE_BYTES
    assert not_text(written(tmp_path, b"#" * (MAX_FILE_BYTES + 1)))[1] == "the file is larger than 16 MiB"


@pytest.mark.parametrize(
    ("data", "place", "offset"),
    [
        (b"\xff", "1:1", 0),
        (b"version: 1\nhosts: {\xe9}\n", "2:9", 19),
        ("# é é\n# é ".encode() + b"\xe9\n", "2:5", 13),
        (b"a\r\nb\xc3", "2:2", 4),
        (b"\xef\xbb\xbfab\xff", "1:3", 2),
        (b"\xed\xa0\x80", "1:1", 0),
        (b"\xc0\xaf", "1:1", 0),
    ],
    ids=["first", "latin-1", "after-wide", "cut-off", "after-mark", "surrogate", "overlong"],
)
def test_bytes_that_are_not_utf8_are_found_where_they_stand(
    tmp_path: Path, data: bytes, place: str, offset: int
) -> None:
    found = not_text(written(tmp_path, data))
    assert found == (place, f"the byte at offset {offset} is not UTF-8", "save it as UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognised(tmp_path: Path, encoding: str) -> None:
    data = "\ufeffversion: 1\n".encode(encoding)
    assert not_text(written(tmp_path, data)) == ("1:1", "the file is UTF-16", "save it as UTF-8")


def test_utf16_without_its_mark_is_found_by_its_nul_bytes(tmp_path: Path) -> None:
    place, message, hint = not_text(written(tmp_path, "version: 1\n".encode("utf-16-le")))
    assert (place, message) == ("1:2", "the file contains a NUL byte")
    assert hint.endswith("save it as UTF-8")


def test_a_program_is_no_text(tmp_path: Path) -> None:
    assert not_text(written(tmp_path, b"\x7fELF\x02\x01\x01\x00\x00"))[:2] == (
        "1:8",
        "the file contains a NUL byte",
    )


def test_what_stands_in_the_file_is_never_quoted(tmp_path: Path) -> None:
    """Somebody may point at the file that holds the secret."""
    found = not_text(written(tmp_path, b"hunter2-hunter2\xff"))
    assert not any("hunter2" in part for part in found)
