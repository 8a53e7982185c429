"""Modes count where others can get to: a closed folder on the way keeps them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.doctor.file_modes import group_may_enter, may_read, may_write
from tests.cli.command import put
from tests.unit.doctor.proxy_setups import open_folder


@pytest.mark.parametrize(
    ("mode", "reads", "writes"),
    [(0o600, False, False), (0o640, False, False), (0o644, True, False), (0o602, False, True)],
)
def test_the_mode_of_a_file_that_others_can_get_to_counts(mode: int, *, reads: bool, writes: bool) -> None:
    with open_folder() as folder:
        file = put(folder / "below/file", "")
        file.chmod(mode)
        assert (may_read(file), may_write(file)) == (reads, writes)
        file.parent.chmod(0o700)
        assert (may_read(file), may_write(file)) == (False, False)


@pytest.mark.parametrize(
    ("mode", "own", "other"),
    [(0o710, True, False), (0o701, False, True), (0o711, True, True), (0o700, False, False)],
)
def test_a_group_gets_through_folders_of_its_own_and_those_open_to_all(
    mode: int, *, own: bool, other: bool
) -> None:
    with open_folder() as folder:
        file = put(folder / "below/file", "")
        file.parent.chmod(mode)
        group = file.parent.stat().st_gid
        # Above it stand folders of groups that are not known here; they let everybody through.
        assert group_may_enter(file, group) is own
        assert group_may_enter(file, group + 1) is other


@pytest.mark.parametrize(("mode", "writes"), [(0o755, False), (0o777, True), (0o1777, False)])
def test_a_shared_folder_is_no_open_one(mode: int, *, writes: bool) -> None:
    with open_folder() as folder:
        folder.chmod(mode)
        assert may_write(folder) is writes


def test_what_is_not_there_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        may_read(tmp_path / "none")
