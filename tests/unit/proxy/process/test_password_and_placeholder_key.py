"""Files that hold what only their owner may know, and what is said about those that do not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import ContentError, UnreadableError
from egress.proxy.ingress.listener import password_digest
from egress.proxy.process.password_and_placeholder_key import KEY_BYTES, read_or_make_key, read_password

GOOD = "open-sesame-open-sesame"


def put(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_is_its_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(f"{GOOD}{end}".encode())
    path.chmod(0o600)
    assert read_password(path) == password_digest(GOOD)


@pytest.mark.parametrize(
    "text", ["", "short", "\n", "x" * 15, f"{GOOD}\n\n", f"{GOOD} {GOOD}", f"{GOOD}\x00", f"{GOOD}\u00e9"]
)
def test_a_password_that_is_none_to_rely_on_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    with pytest.raises(ContentError) as caught:
        read_password(put(tmp_path / "password", text))
    assert GOOD not in str(caught.value)
    assert "openssl" in caught.value.hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = put(tmp_path / "password", GOOD, mode)
    with pytest.raises(UnreadableError) as caught:
        read_password(path)
    assert f"open to other users (mode {mode:04o})" in caught.value.message
    assert caught.value.hint.startswith(f"`chmod 600 {path}` if nobody else can have read or changed it")


def test_a_token_that_a_cluster_mounts_may_be_readable_by_the_group(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sixteen-letters-or-more")
    path.chmod(0o440)
    option = "--metrics-token-file"
    assert read_password(path, option, is_mounted=True) == password_digest("sixteen-letters-or-more")
    with pytest.raises(UnreadableError, match="open to other users"):
        read_password(path, option)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        read_password(tmp_path / "missing")
    with pytest.raises(UnreadableError):
        read_password(tmp_path)
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_password(Path("/dev/null"))


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "placeholders" / "box.key"
    key = read_or_make_key(path)
    assert len(key) == KEY_BYTES
    assert read_or_make_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_or_make_key(tmp_path / "placeholders" / "other.key") != key


def test_a_damaged_key_is_never_written_over(tmp_path: Path) -> None:
    path = put(tmp_path / "box.key", "cut")
    with pytest.raises(ContentError, match="damaged"):
        read_or_make_key(path)
    assert path.read_text(encoding="utf-8") == "cut"


def test_a_key_that_cannot_be_kept_is_said() -> None:
    with pytest.raises(UnreadableError):
        read_or_make_key(Path("/proc/egress/box.key"))
