"""What may stand in a log, or become of one: a clear word, and the good lines still served."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from egress.review import Filters, Index
from egress.review.follow import follow
from tests.faults import small_mount
from tests.unit.audit.sample import files
from tests.unit.review.sample import Writing, write


def names(index: Index) -> list[str]:
    return [entry.request for entry in index.query(Filters(event="exchange")).entries]


def test_a_line_of_a_gigabyte_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    write(tmp_path)
    file = files(tmp_path)[0]
    with file.open("r+b") as writing:
        size = writing.seek(0, 2)
        writing.truncate(size + (1 << 30))
        writing.seek(size + (1 << 30))
        writing.write(b"\n")
    after = Writing(tmp_path)
    after.exchange("r-after")
    after.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Index(tmp_path, reserve=0) as index:
        state = index.catch_up()
        assert dict(state.odd) == {"huge": 1}
        assert names(index)[:2] == ["r-after", "r-6"]
        assert [entry.request for entry in index.query(Filters(grep="user/keys")).entries] == ["r-2"]
        assert index.find("r-after")
        assert not index.catch_up().trouble
    assert [entry.request for entry in follow(tmp_path, Filters(event="exchange"), 1)] == ["r-after"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(
    ("junk", "kind"),
    [
        (b"\x00" * 5000 + b"\n", "foreign"),
        (b'{"seq":3,"time":"2026-03-01T09:30:00.000123Z","event":"exchange","host":"\n', "corrupt"),
        (b'{"seq":3,"time":"2026-03-01T09:30:00.000123Z","eve#\n', "half"),
        (b"x" * 400_000 + b"\n", "huge"),
        (b"[" * 9000 + b"\n", "foreign"),
        ("\u202e\x1b]0;x\x07\n".encode(), "foreign"),
    ],
)
def test_what_is_no_line_is_counted_and_the_others_are_served(junk: bytes, kind: str, tmp_path: Path) -> None:
    write(tmp_path)
    file = files(tmp_path)[0]
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*whole[:2], junk, *whole[2:]]))
    with Index(tmp_path, reserve=0) as index:
        assert dict(index.catch_up().odd) == {kind: 1}
        assert names(index) == ["r-6", "r-4", "r-3", "r-2", "r-1"]
        ((number, at, size, told),) = index.odd()
        assert (number, at, size, told) == (1, len(whole[0]) + len(whole[1]), len(junk), kind)


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_a_disk_that_is_full_leaves_the_index_as_it_was(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A real one, of some MiB: what was indexed is served, what is new waits for room, the log is sound."""
    facts = small_mount.story(request, "tests.review.tiny_index", str(tmp_path))
    assert facts["trouble"] == "full"
    assert facts["is_behind"] is True
    assert facts["newest"] == ["r-6", "r-4"]
    assert facts["found"] == ["r-2"]
    assert str(facts["from_nothing"]).endswith("and none can be made: full")
    assert (facts["after"], facts["lines"], facts["refusals"]) == ("", True, 3001)


def test_pages_of_the_index_that_were_overwritten_are_made_anew(tmp_path: Path) -> None:
    write(tmp_path)
    with Index(tmp_path, reserve=0) as index:
        index.catch_up()
    place = tmp_path / "index.sqlite3"
    data = bytearray(place.read_bytes())
    data[200:] = b"\xff" * (len(data) - 200)
    place.write_bytes(data)
    with Index(tmp_path, reserve=0) as index:
        index.catch_up()
        assert names(index)[0] == "r-6"
