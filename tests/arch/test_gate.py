"""The gate: which tests it tries again and which never, what it prints, and the budget of each file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from scripts import gate
from scripts.gate import Result, Took
from tests import conftest

ROOT = Path(__file__).parents[2]
FLAKY = "tests/proxy/process/test_lifecycle.py::test_a_signal_ends_it_cleanly[SIGINT]"


@pytest.fixture(autouse=True)
def harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gate, "HARM", tmp_path / "harm")
    return tmp_path / "harm"


def judged(results: list[Result], *, second: int | None = None) -> tuple[int, list[str]]:
    """The status, and what was run again."""
    tried: list[str] = []

    def again(failed: list[str]) -> int:
        tried.extend(failed)
        assert second is not None
        return second

    named = {str(number): result for number, result in enumerate(results)}
    return gate.judge(named, again, is_second=second is not None), tried


def failing(*tests: str) -> Result:
    return Result(1, 0, 0, failed=list(tests))


def test_what_failed_is_run_again_where_that_is_asked_for() -> None:
    assert judged([Result(0, 0, 0), failing(FLAKY)], second=0) == (0, [FLAKY])
    assert judged([Result(0, 0, 0), failing(FLAKY)], second=1) == (1, [FLAKY])
    assert judged([Result(0, 0, 0), failing(FLAKY)]) == (1, [])


@pytest.mark.parametrize(
    "test",
    [
        "tests/property/test_http1.py::test_x",
        "tests/unit/audit/test_sink.py::test_x",
        "tests/attack/test_dns.py::test_x",
        "tests/attack/catalogue/test_dns.py::test_x[egress]",
        "tests/addons/test_guard.py::test_x",
        "tests/proxy/lanes/test_tunnel_lane.py::test_the_guard_is_there",
    ],
)
def test_some_tests_have_no_second_try(test: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert judged([failing(FLAKY, test)], second=0) == (1, [])
    assert test in capsys.readouterr().out


def test_harm_has_no_second_try(harm: Path) -> None:
    harm.write_text("a secret")
    assert judged([failing(FLAKY)], second=0) == (1, [])


def test_what_is_no_failed_test_is_never_forgiven() -> None:
    """A file that cannot be collected, a run that was interrupted, a worker that died."""
    assert judged([Result(2, 0, 0), failing(FLAKY)], second=0) == (1, [])
    assert judged([Result(1, 0, 0)], second=0) == (1, [])
    assert judged([Result(5, 0, 0), Result(5, 0, 0)], second=0)[0] == 5
    assert judged([Result(5, 0, 0), Result(0, 0, 0)], second=0)[0] == 0


def test_the_table_names_pools_folders_and_files() -> None:
    files = {"tests/unit/a/test_a.py": Took(2, 1.5, 1.0), "tests/proxy/clients/test_b.py": Took(1, 9, 3)}
    rows = [line.split() for line in gate.table({"computing": Result(0, 12.4, 7.7, files)})]
    assert ["computing", "3", "12", "8"] in rows
    assert rows.index(["tests/proxy/clients", "1", "9.0", "3.0"]) < rows.index(
        ["tests/unit", "2", "1.5", "1.0"]
    )
    assert ["tests/unit/a/test_a.py", "2", "1.5", "1.0"] in rows


# Pools and tiers ------------------------------------------------------------------------------------


def test_every_pool_is_run() -> None:
    assert {pool.name for pool in gate.POOLS} == {"computing", *conftest.POOLS}


def test_few_workers_are_none() -> None:
    """Telling another process of each test costs more than the tests, where they are short."""
    assert [gate.BESIDE.count(processors) for processors in (1, 2, 4, 8)] == [0, 0, 2, 4]
    assert [pool.count(2) for pool in gate.IN_TURN] == [2, 5]


def test_every_room_that_waits_is_there() -> None:
    rooms = [room for rooms in conftest.POOLS.values() for room in rooms]
    assert [room for room in rooms if not (ROOT / "tests" / room).is_dir()] == []


def test_every_slow_file_is_there_and_in_a_pool_of_several_workers() -> None:
    assert [name for name in conftest.SLOW_FILES if not (ROOT / "tests" / name).is_file()] == []
    assert {conftest.pool_of(ROOT / "tests" / name) for name in conftest.SLOW_FILES} == {*conftest.POOLS}


def test_the_night_runs_what_the_gate_leaves_out() -> None:
    script = (ROOT / ".ci/nightly").read_text(encoding="utf-8")
    assert "EGRESS_TEST_TIER=nightly" in script
    for step in (".ci/run", "fuzz", "soak", "mutants"):
        assert f" {step}\n" in script


# The budget -----------------------------------------------------------------------------------------

LISTED = tomllib.loads((ROOT / "tests/budget.toml").read_text(encoding="utf-8"))


def test_a_file_with_a_larger_budget_is_there_and_says_why() -> None:
    for name, entry in LISTED["files"].items():
        assert (ROOT / name).is_file(), name
        assert entry["seconds"] > LISTED["seconds"], f"{name} needs no line"
        assert entry["why"], name


def test_all_larger_budgets_together_are_bounded() -> None:
    """Or the gate would grow line by line."""
    assert sum(entry["seconds"] for entry in LISTED["files"].values()) <= LISTED["together"]


def test_a_file_above_its_budget_is_found() -> None:
    budget = gate.Budget(60, {"tests/a.py": 100})
    files = {"tests/a.py": Took(1, 500, 99), "tests/b.py": Took(1, 500, 61), "tests/c.py": Took(1, 5, 5)}
    assert list(budget.exceeded(files)) == ["tests/b.py: 61 s of processor time, and its budget is 60"]
    assert list(budget.exceeded(files, 2)) == []
    assert len(list(budget.exceeded({"tests/b.py": Took(1, 500, 121)}, 2))) == 1


def test_what_was_written_down_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = conftest.Record(tmp_path / "found.json")
    record.pytest_runtest_logreport(report("call", 1.5, outcome="passed"))
    record.pytest_runtest_logreport(report("teardown", 0.5, outcome="failed"))
    record.pytest_sessionfinish()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {"files": {"tests/test_a.py": [1, 2.0, 0.5]}, "failed": ["tests/test_a.py::test_a"]}


def report(when: str, seconds: float, *, outcome: str) -> pytest.TestReport:
    made = pytest.TestReport(
        "tests/test_a.py::test_a",
        ("tests/test_a.py", 1, "test_a"),
        {},
        outcome,  # type: ignore[arg-type]
        None,
        when,  # type: ignore[arg-type]
        duration=seconds,
    )
    made.processor = 0.25  # type: ignore[attr-defined]
    return made
