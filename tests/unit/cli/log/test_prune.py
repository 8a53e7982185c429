"""`egress log prune`: what it deletes, and what it says."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from egress.errors import ContentError, UsageError
from egress.review import pruning
from tests.unit.audit.sample import files, read
from tests.unit.cli.log.sample import make, run


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch, rotate_at=900)


def told(log: Path) -> list[dict[str, object]]:
    return [line for line in read(log) if line["event"] == "pruned"]


def test_a_trial_says_what_would_go_and_then_it_goes(log: Path) -> None:
    there = [file.name for file in files(log)]
    _, said, _ = run("prune", "--keep-files", "2", "--dry-run")
    assert said.splitlines()[:-1] == [f"would be deleted: {name}" for name in there[:-2]]
    assert len(files(log)) == len(there)
    _, said, _ = run("prune", "--keep-files", "2")
    assert said.splitlines()[-1].startswith(f"ok {len(there) - 2} files deleted, ")
    assert len(files(log)) == 2
    assert run("verify")[0] == 0


def test_who_deleted_is_on_the_record(log: Path) -> None:
    run("prune", "--keep-files", "2", "--dry-run")
    assert told(log) == []
    run("prune", "--keep-files", "2")
    [line] = told(log)
    assert line["by"] == pwd.getpwuid(os.getuid()).pw_name
    _, said, _ = run("tail", "-n", "1")
    assert f"pruned  by {line['by']}, at {line['at']}, files {line['files']}, bytes " in said
    began = f"begins: with line {line['first']}; {line['files']} files before it, {line['bytes']} bytes"
    _, said, _ = run("verify")
    assert said.splitlines()[0] == f"{began}, deleted by {line['by']} at {line['at']}"
    assert json.loads(run("verify", "--json")[1])["pruning"]["at"] == line["at"]


def test_who_has_no_name_has_a_number(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    run("prune", "--keep-files", "2")
    assert [line["by"] for line in told(log)] == [f"user {os.getuid()}"]


def test_force_is_on_the_record(log: Path) -> None:
    file = files(log)[1]
    file.write_bytes(file.read_bytes().replace(b"agent-1", b"agent-2", 1))
    with pytest.raises(ContentError, match="is damaged"):
        run("prune", "--keep-files", "2")
    run("prune", "--keep-files", "2", "--force")
    assert [line["forced"] for line in told(log)] == [True]
    assert run("verify")[1].splitlines()[0].endswith(", with --force")


def test_what_cannot_be_written_now_is_left_to_the_next_start(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "record_pruning", lambda *_: False)
    _, said, _ = run("prune", "--keep-files", "2")
    assert said.splitlines()[-1] == "note: the next start of the proxy records the deletion in the log"
    _, said, _ = run("prune", "--keep-files", "2")
    assert "note" not in said, "nothing was deleted"


def test_time_and_size_are_policies_too(log: Path) -> None:
    there = len(files(log))
    run("prune", "--older-than", "7h")
    assert 2 < len(files(log)) < there
    run("prune", "--keep-size", "1k")
    assert len(files(log)) < 3


@pytest.mark.parametrize("words", [(), ("--keep-size", "many"), ("--older-than", "x")])
def test_a_policy_that_says_nothing_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        run("prune", *words)
    assert error.value.hint
