"""A state folder is our own and nobody else can write into it, or nothing is read from it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.policy.state_dir_ownership import check_state_dir, make_state_dir

BOTH = pytest.mark.parametrize("check", [check_state_dir, make_state_dir])


def test_it_is_made_for_its_owner_alone_whatever_the_mask_is(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        make_state_dir(tmp_path / "deep/state")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep/state").stat().st_mode) == 0o700


def test_to_check_one_makes_none(tmp_path: Path) -> None:
    check_state_dir(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@BOTH
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_others_may_look(check: Callable[[Path], None], mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    check(tmp_path)


@BOTH
@pytest.mark.parametrize("mode", [0o720, 0o770, 0o702, 0o1777])
def test_others_may_not_write(check: Callable[[Path], None], mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(UnreadableError, match=f"{tmp_path} is open to other users") as caught:
        check(tmp_path)
    assert f"chmod go-w {tmp_path}" in caught.value.hint
    assert "--state-dir" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_that_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(UnreadableError, match="belongs to another user"):
        check_state_dir(tmp_path)


@BOTH
def test_a_file_in_its_place_is_named(check: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(UnreadableError, match=str(path)) as caught:
            check(path)
        assert "--state-dir" in caught.value.hint


def test_where_none_can_be_made_it_says_so() -> None:
    with pytest.raises(UnreadableError, match="/proc/egress cannot be created") as caught:
        make_state_dir(Path("/proc/egress"))
    assert "--state-dir" in caught.value.hint
