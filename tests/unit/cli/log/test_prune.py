"""`egress log prune`: what it deletes, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UsageError
from tests.unit.audit.sample import files
from tests.unit.cli.log.sample import make, run


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch, rotate_at=900)


def test_a_trial_says_what_would_go_and_then_it_goes(log: Path) -> None:
    there = [file.name for file in files(log)]
    _, said, _ = run("prune", "--keep-files", "2", "--dry-run")
    assert said.splitlines()[:-1] == [f"would be deleted: {name}" for name in there[:-2]]
    assert len(files(log)) == len(there)
    _, said, _ = run("prune", "--keep-files", "2")
    assert said.splitlines()[-1].startswith(f"ok {len(there) - 2} files deleted, ")
    assert len(files(log)) == 2
    assert run("verify")[0] == 0


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
