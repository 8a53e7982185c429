"""Following: the last lines, then every new one, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.review import Filters
from egress.review.follow import follow
from tests.unit.audit.sample import files
from tests.unit.review.sample import Writing, write


def doing(*steps: Callable[[], object]) -> Callable[[], bool]:
    """Do one thing at each wait, and end after the last."""
    left: Iterator[Callable[[], object]] = iter((*steps, lambda: None))

    def wait() -> bool:
        step = next(left, None)
        if step is not None:
            step()
        return step is not None

    return wait


def test_the_last_lines_come_first(tmp_path: Path) -> None:
    write(tmp_path)
    assert [entry.seq for entry in follow(tmp_path, Filters(), 3)] == [6, 7, 8]
    assert [entry.seq for entry in follow(tmp_path, Filters(verdict="deny"), 3)] == [4, 7]
    assert list(follow(tmp_path, Filters(), 0)) == []


def test_no_text_is_found_in_a_hidden_field(tmp_path: Path) -> None:
    """Of exchanges, which are searched by their shape, and of all other lines."""
    write(tmp_path)
    lines = tuple(follow(tmp_path, Filters(), 100))
    for event, name in (("exchange", "place"), ("tunnel", "address")):
        found = [entry for entry in lines if entry.event == event and entry.text(name)]
        assert found
        for entry in found:
            text = entry.text(name)
            assert Filters(grep=text).admits(entry)
            assert not Filters(grep=text, hidden={name}).admits(entry)
            assert not Filters(grep=text, hidden={name}).but(host=entry.text("host")).admits(entry)
            assert Filters(grep=entry.text("host"), hidden={name}).admits(entry)


def test_what_comes_is_followed_across_rotation(tmp_path: Path) -> None:
    write(tmp_path)
    writing = Writing(tmp_path, rotate_at=900)
    new = [lambda n=n: writing.exchange(f"n-{n}") for n in range(4)]
    found = [entry.request or entry.event for entry in follow(tmp_path, Filters(), 0, doing(*new))]
    writing.close()
    assert [name for name in found if name.startswith("n-")] == ["n-0", "n-1", "n-2", "n-3"]
    assert found.count("rotated") == len(files(tmp_path)) - 1 > 1


def test_a_line_comes_when_it_has_its_end(tmp_path: Path) -> None:
    write(tmp_path)
    file = files(tmp_path)[0]
    data = file.read_bytes()
    line = data.splitlines(keepends=True)[-1]

    def append(part: bytes) -> Callable[[], object]:
        def now() -> None:
            with file.open("ab") as writing:
                writing.write(part)

        return now

    wait = doing(append(line[:50]), append(line[50:]), append(b"junk\n"))
    assert [entry.raw for entry in follow(tmp_path, Filters(), 0, wait)] == [line[:-1]]


def test_a_file_that_became_shorter_or_went_away_is_survived(tmp_path: Path) -> None:
    write(tmp_path)
    file = files(tmp_path)[0]
    data = file.read_bytes()
    wait = doing(lambda: file.write_bytes(data[:300]), file.unlink)
    assert len(list(follow(tmp_path, Filters(), 1, wait))) >= 1


@pytest.mark.parametrize("name", ["", "none"])
def test_without_a_log_it_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no audit log"):
        list(follow(tmp_path / name, Filters()))
