"""Where log, key and index are, and what is said of an index that is behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.cli import progress
from egress.cli.log import locations
from egress.cli.progress import ProgressStep
from egress.errors import UnreadableError
from egress.review import Index, IndexState
from tests.unit.cli.log.sample import make, run


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch)


def test_they_are_where_the_proxy_keeps_them(log: Path, tmp_path: Path) -> None:
    assert locations.folder(None, None) == log
    assert locations.folder(tmp_path / "x", None) == tmp_path / "x/audit"
    assert locations.folder_and_key(None, None, None) == (log, tmp_path / "audit.key")
    assert locations.folder_and_key(None, tmp_path, log) == (tmp_path, log)
    with pytest.raises(UnreadableError, match="key not found"):
        locations.read_key(tmp_path / "none", log)


def test_a_log_of_somebody_else_gets_its_index_elsewhere(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run("query", "--limit", "1")[0] == 0
    assert not (log / "index.sqlite3").exists()
    assert len(list((tmp_path / "review").glob("*.sqlite3"))) == 1


def test_the_index_can_be_named(log: Path, tmp_path: Path) -> None:
    run("query", "--index", str(tmp_path / "mine"))
    assert (tmp_path / "mine").exists()
    with pytest.raises(UnreadableError, match="there is no index"):
        run("query", "--index", str(tmp_path / "none/mine"))


def test_another_writer_is_told_of(log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        with index._lock():
            assert "another process is bringing it up" in run("query")[2]


def test_what_should_be_known_is_told_beside(capsys: pytest.CaptureFixture[str]) -> None:
    locations.tell(
        IndexState(odd=(("half", 1), ("huge", 2)), unknown=2, behind=7, trouble="the disk is nearly full")
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 3


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("words", "name", "stages"),
    [(("query",), "reading the log", ["100 % of 0 MB"]), (("verify",), "verifying the log", [])],
)
def test_a_large_log_is_read_with_progress(
    words: tuple[str, ...], name: str, stages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[str]]] = []

    class WatchedStep(ProgressStep):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.stages: list[str] = []
            seen.append((name, self.stages))

        def stage(self, text: str) -> None:
            self.stages.append(text)

    monkeypatch.setattr(progress, "ProgressStep", WatchedStep)
    assert run(*words)[0] == 0
    assert [each[0] for each in seen] == [name]
    assert seen[0][1][-1:] == stages
