"""The gate: which tests it tries again and which never, what it prints, and the budget of each file."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from scripts import gate
from scripts.gate import Result, Took
from tests import conftest
from tests.file_queue import FileQueue

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


def test_every_pool_has_a_worker() -> None:
    assert [pool.count(2) for pool in gate.POOLS] == [2, 2, 5]
    assert gate.Pool("small", 0.1).count(1) == 1


def test_a_pool_is_as_bad_as_its_worst_worker() -> None:
    """A worker that has nothing left to take says nothing about the pool."""
    passed, failed, idle = Result(0, 0, 2, {"a.py": Took(1, 2, 3)}), failing(FLAKY), Result(5, 0, 1)
    whole = Result.of_workers([passed, failed, idle], 9)
    assert (whole.status, whole.wall, whole.processor) == (1, 9, 3)
    assert (whole.failed, whole.files) == ([FLAKY], passed.files)
    assert Result.of_workers([passed, idle], 9).status == 0
    assert Result.of_workers([idle, idle], 9).status == 5
    assert Result.of_workers([failed, Result(-9, 0, 0), passed], 9).status == -9
    assert Result.of_workers([failed, Result(2, 0, 0)], 9).status == 2


# A queue of files -------------------------------------------------------------------------------------


def queue_of(path: Path, *names: str, at_once: int = 1) -> FileQueue:
    return FileQueue(path, at_once, lambda: names)


def test_each_file_is_taken_once(tmp_path: Path) -> None:
    """The first worker writes down the names; a worker that comes later finds what is left."""
    first, second = (queue_of(tmp_path / "queue", "a", "b", "c", at_once=number) for number in (1, 5))
    assert first.take() == ["a"]
    assert second.take() == ["b", "c"]
    assert first.take() == second.take() == []


def workers(tmp_path: Path, count: int, *files: str) -> tuple[list[int], dict[str, int]]:
    """Run files of tests by so many processes: their statuses, and how many tests of each file were run."""
    (tmp_path / "conftest.py").write_text(WORKER.format(queue=tmp_path / "queue"), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, text in zip("abcdefgh", files, strict=False):
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--rootdir={tmp_path}",
    ]
    begun = [
        subprocess.Popen([*command, tmp_path], env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
        for _ in range(count)
    ]
    statuses = sorted(each.wait() for each in begun)
    ran = (tmp_path / "ran").read_text().split() if (tmp_path / "ran").exists() else []
    return statuses, dict(Counter(ran))


WORKER = """
from pathlib import Path
import pytest
from tests.file_queue import FileQueue

HERE = Path(__file__).parent

def pytest_configure(config):
    names = sorted(str(file) for file in HERE.glob("test_*.py"))
    config.pluginmanager.register(FileQueue(Path("{queue}"), 1, lambda: names))

@pytest.fixture(scope="session")
def started():
    with (HERE / "started").open("a") as file:
        file.write("started ")

@pytest.fixture(autouse=True)
def ran(request, started):
    with (HERE / "ran").open("a") as file:
        file.write(request.path.name + " ")
"""
TWO = "def test_one(): pass\ndef test_two(): pass\n"


def test_workers_share_all_files(tmp_path: Path) -> None:
    """Each test is run once, and what a worker has started for its session serves all of its files."""
    statuses, ran = workers(tmp_path, 2, TWO, TWO, TWO, TWO)
    assert ran == {f"test_{name}.py": 2 for name in "abcd"}
    assert set(statuses) <= {0, gate.NOTHING_COLLECTED}
    assert (tmp_path / "started").read_text().count("started") == statuses.count(0)


def test_a_file_that_cannot_be_read_is_worse_than_a_test_that_fails(tmp_path: Path) -> None:
    statuses, ran = workers(tmp_path, 1, "import nothing_of_the_kind", "def test_one(): assert False", TWO)
    assert statuses == [2]
    assert ran == {"test_b.py": 1, "test_c.py": 2}, "the others are run all the same"


def test_a_test_that_fails_is_told(tmp_path: Path) -> None:
    assert workers(tmp_path, 1, "def test_one(): assert False", TWO)[0] == [1]


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
