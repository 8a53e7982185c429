"""An index that somebody else could have written is not asked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.review import Filters, Index, index_ownership
from egress.review.skippable_spans import SkippableSpans
from tests.unit.review.sample import write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write(tmp_path / "log")
    with Index(tmp_path / "log", reserve=0) as index:
        index.catch_up()
    return tmp_path / "log"


def is_refused(log: Path, reason: str) -> bool:
    with Index(log, reserve=0) as index:
        with pytest.raises(UnreadableError, match=reason) as error:
            index.catch_up()
        with pytest.raises(UnreadableError, match=reason):
            index.query(Filters())
    assert SkippableSpans.of(log / "index.sqlite3", 1 << 61, None, log) == SkippableSpans()
    return "delete it" in error.value.hint


def test_one_of_the_proxy_is_used(log: Path) -> None:
    index_ownership.check_ownership(log / "index.sqlite3", log)
    index_ownership.check_ownership(log / "none", log)
    assert SkippableSpans.of(log / "index.sqlite3", 1 << 61, None, log) != SkippableSpans()


@pytest.mark.parametrize("part", index_ownership.PARTS)
@pytest.mark.parametrize("mode", [0o660, 0o642])
def test_one_that_others_may_write_is_refused_and_so_is_what_belongs_to_it(
    part: str, mode: int, log: Path
) -> None:
    path = log / f"index.sqlite3{part}"
    path.touch()
    path.chmod(mode)
    assert is_refused(log, "other users may write")
    path.unlink()
    with Index(log, reserve=0) as index:
        index.catch_up()
        assert len(index.query(Filters()).entries) == 8


def test_a_link_to_one_is_refused(log: Path) -> None:
    place = log / "index.sqlite3"
    place.rename(log / "other")
    place.symlink_to(log / "other")
    assert is_refused(log, "a link")


def test_one_of_another_user_is_refused() -> None:
    def found(user: int, mode: int = 0o640) -> os.stat_result:
        return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, user, 0, 0, 0, 0, 0))

    assert index_ownership._reason(found(1000), {0, 1000}) == ""
    assert "belongs to user 1001" in index_ownership._reason(found(1001), {0, 1000})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_one_that_another_user_put_there_is_refused(log: Path) -> None:
    os.chown(log / "index.sqlite3", 65534, 65534)
    assert is_refused(log, "belongs to user 65534")
    os.chown(log, 65534, 65534)
    index_ownership.check_ownership(log / "index.sqlite3", log)
