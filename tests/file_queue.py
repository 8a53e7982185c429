"""Tests of a pool by several processes of pytest, each of which takes the next file when it has ended one.

    python -m pytest -n 0 --pool waiting --queue .cache/queue/waiting

The first process writes down which files there are. Each file is read by the process that runs it and by no
other; with pytest-xdist every worker reads all files before it begins.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest


class FileQueue:
    """A plugin that runs what it takes from a file of names; other processes take from it too."""

    def __init__(self, path: Path, at_once: int, names: Callable[[], Sequence[str]]) -> None:
        self._path = path
        self._at_once = at_once
        self._names = names
        self._is_broken = False
        self._collected = 0
        self._folders: dict[Path, pytest.Collector] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_directory(
        self, path: Path
    ) -> Generator[None, pytest.Collector | None, pytest.Collector | None]:
        """Give each folder one node for good: the fixtures of its conftest belong to its first one."""
        made = yield
        return made and self._folders.setdefault(path, made)

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Collect nothing yet."""
        session.items = []
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._is_broken |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = self._items(session)
        item = next(items, None)
        while item is not None:
            # The next file is taken before the last test of this one: fixtures of the session live on.
            following = next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        if self._is_broken:
            raise session.Interrupted("a file cannot be read")
        return True

    def _items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        while names := self.take():
            found = session.perform_collect(names)
            self._collected += len(found)
            session.testscollected = self._collected
            yield from found

    def take(self) -> list[str]:
        """Take the next names; nothing when all are taken."""
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            # A line that is always there says that the names have been written.
            names = text.splitlines()[1:] if text else list(self._names())
            taken, left = names[: self._at_once], names[self._at_once :]
            file.truncate(0)
            file.write("\n".join(["names", *left]))
        return taken
