"""Try mutants in forks of a process that has collected the tests once.

First every test runs, and it is noted which lines it reaches. Then for each mutant a fork plants it and
runs the tests that reach its lines, nearest first, until one fails. A test that does not pass without a
mutant takes no part.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import coverage
import hypothesis
import pytest
from _pytest.runner import call_and_report, runtestprotocol

from scripts.mutants.sites import Module, Mutant
from scripts.mutants.swap import (
    Living,
    NotSwappedError,
    Planter,
    constants_of,
    functions_of,
    lines_of,
    names_used,
)

KILLED: Final = "killed"
SURVIVED: Final = "survived"
TIMED_OUT: Final = "timed out"
UNTESTED: Final = "untested"
"""No test reaches it."""
UNSWAPPED: Final = "unswapped"

_EXITS: Final = {0: SURVIVED, 1: KILLED, 3: UNSWAPPED}
_MORE_MEMORY: Final = 2 * 1024**3
_WORK: Final = 1.0
"""Seconds of work that a test may take beyond five times what it took without a mutant."""
_MUTANT_TIMEOUT: Final = 600.0
"""Seconds after which a mutant's tests do not work any more, but wait for what never comes."""


Measured = tuple[dict[str, float], list[tuple[str, int, list[str]]]]
"""What each test takes, and which tests reach each line of each file."""


@dataclass(slots=True)
class Reach:
    """Which tests reach which lines, and how long each takes."""

    tests: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    functions: dict[str, list[tuple[range, frozenset[str]]]] = field(default_factory=dict)
    constants: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """The names that a statement of some module defines, and those it makes them from."""

    def look_at_functions(self, root: Path) -> None:
        """Take note which names every function uses whose lines are reached."""
        for path in sorted((root / "egress").rglob("*.py")):
            self.constants += constants_of(path)
        for file in {file for file, _ in self.tests}:
            self.functions[file] = [(lines_of(code), names_used(code)) for code in functions_of(root / file)]

    def add(self, measured: Measured) -> None:
        """Take in what the tests of one file reach."""
        seconds, lines = measured
        self.seconds |= seconds
        for file, line, tests in lines:
            self.tests.setdefault((file, line), set()).update(test for test in tests if test in seconds)

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that may notice this mutant: those of its own file first, then the quickest."""
        module = Path(mutant.file).relative_to("egress")
        own = Path("tests/unit", module.with_name(f"test_{module.name}")).as_posix()
        homes = (own, own.replace("tests/unit", "tests"))
        beside = {test for test in self.seconds if test.partition("::")[0] in homes}
        # What runs on import is used in ways that no line tells, such as by the code of a dataclass.
        found = self._of(mutant) if mutant.scope.function else self._of(mutant) | beside
        return sorted(found, key=lambda test: (test not in beside, self.seconds[test], test))

    def _of(self, mutant: Mutant) -> set[str]:
        if mutant.scope.function:
            found = self._of_lines(mutant.file, range(mutant.first, mutant.last + 1))
            if found:
                return found
        names = self._made_from(frozenset(mutant.scope.assigned))
        users = [
            (file, lines)
            for file, functions in self.functions.items()
            for lines, used in functions
            if (used & names if names else file == mutant.file)
        ]
        found = set[str]()
        for file, lines in users:
            found |= self._of_lines(file, lines)
        return found or self._of_lines(mutant.file, range(1, 10_000))

    def _made_from(self, names: frozenset[str]) -> frozenset[str]:
        while True:
            more = names.union(*(defined for defined, used in self.constants if used & names))
            if more == names:
                return names
            names = more

    def _of_lines(self, file: str, lines: range) -> set[str]:
        return {test for line in lines for test in self.tests.get((file, line), ())}


def _digest(root: Path, paths: Iterable[Path], *more: str) -> str:
    found = hashlib.sha256("\n".join(more).encode())
    for path in paths:
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def settle_hypothesis() -> None:
    """The same examples in every fork, and no time spent on making a failure small."""
    hypothesis.settings.register_profile(
        "mutants",
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")


class Trial:
    """A pytest plugin that tries mutants instead of reporting on tests."""

    def __init__(
        self,
        root: Path,
        modules: dict[str, Module],
        wanted: Iterable[Mutant],
        told: Callable[[Mutant, str], None],
        say: Callable[[str], None],
        budget: float | None = None,
    ) -> None:
        self._root = root
        self._modules = modules
        self._wanted = list(wanted)
        self._told = told
        self._say = say
        self._budget = budget
        self.reach = Reach()

    def pytest_sessionstart(self) -> None:
        settle_hypothesis()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._say(f"{len(items)} tests, {len(self._wanted)} mutants")
        living = Living(self._root)
        self._measure(items, living)
        self.reach.look_at_functions(self._root)
        self._refuse_unsteady(items)
        # What stands now stays: forks share it as long as nobody counts it again.
        gc.collect()
        gc.freeze()
        for mutant in self._wanted:
            self._told(mutant, self._try(living, items, mutant))
        return True

    def _refuse_unsteady(self, items: dict[str, pytest.Item]) -> None:
        """Run all tests in one fork without a mutant: what fails then would call every mutant killed."""
        tests = sorted(self.reach.seconds, key=lambda test: (self.reach.seconds[test], test))
        chosen = [items[test] for test in self.within_budget(tests)]
        if _fork(lambda: _first_failure(chosen, self.reach.seconds)) != 0:
            raise pytest.UsageError(
                "a test fails, or takes much longer, behind others: no result would count"
            )

    def within_budget(self, tests: list[str]) -> list[str]:
        """As many of these tests, from the first, as take no longer than was asked for."""
        spent = 0.0
        for number, test in enumerate(tests):
            spent += self.reach.seconds[test]
            if self._budget is not None and number and spent > self._budget:
                return tests[:number]
        return tests

    def _measure(self, items: dict[str, pytest.Item], living: Living) -> None:
        """Note what each test reaches; a file of tests that was measured before is not run again.

        Each file has a fork of its own: what tests leave in caches would hide lines from those behind them.
        """
        code = sorted((self._root / "egress").rglob("*.py"))
        shared = sorted(p for p in (self._root / "tests").rglob("*.py") if not p.name.startswith("test_"))
        common = _digest(self._root, [*code, *shared])
        by_file: dict[Path, list[pytest.Item]] = {}
        for item in items.values():
            by_file.setdefault(item.path, []).append(item)
        for path, tests in by_file.items():
            kept = self._root / f".cache/mutants/reach/{_digest(self._root, [path], common)}.json"
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                _fork(functools.partial(self._measure_file, tests, kept, living))
            if not kept.exists():
                raise pytest.UsageError(f"{path}: its tests could not be measured")
            self.reach.add(json.loads(kept.read_text(encoding="utf-8")))
        for lost in items.keys() - self.reach.seconds.keys():
            self._say(f"takes no part, since it does not pass: {lost}")
        self._say(f"reach measured: {sum(self.reach.seconds.values()):.0f} s of tests")

    def _measure_file(self, items: list[pytest.Item], kept: Path, living: Living) -> int:
        cover = coverage.Coverage(data_file=None, include=[f"{self._root}/egress/*"], config_file=False)
        cover.set_option("run:disable_warnings", ["no-data-collected"])
        seconds: dict[str, float] = {}
        cover.start()
        for at, item in enumerate(items):
            cover.switch_context(item.nodeid)
            living.forget()
            began = time.process_time()
            following = items[at + 1] if at + 1 < len(items) else None
            reports = runtestprotocol(item, nextitem=following, log=False)
            if all(report.outcome == "passed" for report in reports):
                seconds[item.nodeid] = time.process_time() - began
        cover.stop()
        data = cover.get_data()
        lines = [
            (str(Path(path).relative_to(self._root)), line, sorted(tests))
            for path in data.measured_files()
            for line, tests in data.contexts_by_lineno(path).items()
        ]
        half = kept.with_suffix(".part")
        half.write_text(json.dumps([seconds, lines]), encoding="utf-8")
        half.rename(kept)
        return 0

    def _try(self, living: Living, items: dict[str, pytest.Item], mutant: Mutant) -> str:
        tests = self.reach.of(mutant)
        if not tests:
            return UNTESTED
        chosen = [items[test] for test in self.within_budget(tests)]

        def run() -> int:
            try:
                living.swap(self._modules[mutant.file], mutant)
            except NotSwappedError:
                return 3
            except BaseException:  # noqa: BLE001 - it cannot even be imported
                return 1
            return _first_failure(chosen, self.reach.seconds)

        return _result(_fork(run))


def _result(status: int | None) -> str:
    if status is None or status == -signal.SIGVTALRM:
        return TIMED_OUT
    return _EXITS.get(status, KILLED)


def _first_failure(items: list[pytest.Item], seconds: Mapping[str, float]) -> int:
    for at, item in enumerate(items):
        signal.setitimer(signal.ITIMER_VIRTUAL, _WORK + 5 * seconds[item.nodeid])
        following = items[at + 1] if at + 1 < len(items) else None
        # What a failed test leaves is not cleared away: the fork ends with it, and clearing may hang.
        if (
            call_and_report(item, "setup", log=False).failed
            or call_and_report(item, "call", log=False).failed
            or call_and_report(item, "teardown", log=False, nextitem=following).failed
        ):
            return 1
    return 0


def _fork(run: Callable[[], int]) -> int | None:
    """Run it in a fork; the status it ends with, or None when it had to be ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            gc.disable()
            _confine()
            status = run()
        os._exit(status)
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    in_time = bool(poll.poll(_MUTANT_TIMEOUT * 1000))
    if not in_time:
        os.kill(child, signal.SIGKILL)
    os.close(handle)
    _, status = os.waitpid(child, 0)
    if not in_time:
        return None
    return os.waitstatus_to_exitcode(status)


def _confine() -> None:
    """Nothing is written to the screen, and a mutant that never stops growing ends."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + _MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# The sure way -----------------------------------------------------------------------------------

_OTHERS: Final = ("pydantic", "ruamel.yaml", "idna", "publicsuffixlist", "ahocorasick_rs")
"""What the package imports from others and takes long; in memory once, it is shared by all forks."""


def get_ready() -> None:
    """Import what every fork would import again, and nothing of the package."""
    for name in _OTHERS:
        importlib.import_module(name)


def imported_anew(root: Path, module: Module, mutant: Mutant, tests: list[str]) -> str:
    """Run tests in a fork that imports the mutant; only where the package is not imported yet."""

    def run() -> int:
        sys.meta_path.insert(0, Planter(root, module, mutant))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        plugin = _Chosen(tests)
        signal.setitimer(signal.ITIMER_VIRTUAL, _MUTANT_TIMEOUT)
        return 0 if pytest.main([*OPTIONS, "-x", *files], plugins=[plugin]) == 0 else 1

    return _result(_fork(run))


class _Chosen:
    """A pytest plugin that runs these tests and no others, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}

    def pytest_sessionstart(self) -> None:
        settle_hypothesis()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._order), key=lambda i: self._order[i.nodeid])


OPTIONS: Final = (
    *("-q", "--tb=no", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"),
    *("--inline-snapshot=disable", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
