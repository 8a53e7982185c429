"""Plant small faults in the code, one at a time, and name those that no test notices.

`python -m scripts.mutants` tries the parts that make verdicts; `python -m scripts.mutants FILE...` those
files. It works in memory: no file of the tree is changed. Ends with 1 when a fault went unnoticed and
nobody has said in accepted.toml why that does not matter.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from scripts.mutants import trial
from scripts.mutants.ledger import Accepted, Ledger
from scripts.mutants.sites import Module, Mutant

ROOT = Path(__file__).parents[2]
VERDICTS = (
    *(
        "egress/address_check.py",
        "egress/name_folding.py",
        "egress/addons/guard.py",
        "egress/proxy/lanes/intercept_handler.py",
    ),
    *("egress/http1", "egress/rules", "egress/scrub"),
)
PROPERTIES = ("address", "http1", "http1_writing", "limits", "rules", "rules_paths", "scrub")
ATTACKS = (
    *("addresses", "framing", "guard", "heads", "methods", "names"),
    *("paths", "readings", "reflection", "rule_files", "ssrf"),
)
TESTS = (
    *("tests/unit/http1", "tests/unit/rules", "tests/unit/scrub"),
    *("tests/unit/test_address_check.py", "tests/unit/test_name_folding.py"),
    *("tests/addons/test_guard.py", "tests/language", "tests/presets"),
    *("tests/unit/proxy/lanes/test_intercept_handler.py", "tests/proxy/lanes/test_intercept_handler.py"),
    *(f"tests/property/test_{name}.py" for name in PROPERTIES),
    *(f"tests/attack/test_{name}.py" for name in ATTACKS),
)
"""What is about these parts; what starts whole proxies would take days."""


def main() -> int:
    """Try the mutants of what was named on the command line."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("places", nargs="*", default=VERDICTS, help="files and folders; default: verdicts")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="where to look for tests")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--quick", type=float, metavar="SECONDS", help="of tests for each mutant, at most")
    options = parser.parse_args()
    os.chdir(ROOT)
    ledger_file = ROOT / ".cache/mutants/results.jsonl"
    if options.again:
        ledger_file.unlink(missing_ok=True)
    return Run(list(options.places), list(options.tests), Ledger(ledger_file), options.quick).go()


def files(places: list[str]) -> list[str]:
    """The Python files that these places stand for."""
    found: list[str] = []
    for place in places:
        path = ROOT / place
        found += sorted(str(p.relative_to(ROOT)) for p in path.rglob("*.py")) if path.is_dir() else [place]
    return found


class Run:
    """One run over some files."""

    def __init__(self, places: list[str], tests: list[str], ledger: Ledger, budget: float | None) -> None:
        self.ledger = ledger
        self.tests = tests
        self.accepted = Accepted()
        texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in files(places)}
        self.modules = {file: Module(file, text) for file, text in texts.items()}
        everything = [mutant for module in self.modules.values() for mutant in module.mutants()]
        self.mutants = [mutant for mutant in everything if not self.accepted.leaves_out(mutant)]
        self.left_out = len(everything) - len(self.mutants)
        self.results: dict[str, str] = {}
        for mutant in self.mutants:
            result = ledger.result(mutant)
            # A survivor is tried again, since tests may have learned something; not where that is in vain.
            is_final = result in (trial.KILLED, trial.TIMED_OUT)
            if result is not None and (is_final or self.accepted.why(mutant) is not None):
                self.results[mutant.name] = result
        self.screen = os.fdopen(os.dup(2), "w", buffering=1)
        self.budget = budget
        self.tried = 0
        self.began = time.monotonic()

    def go(self) -> int:
        waiting = [mutant for mutant in self.mutants if mutant.name not in self.results]
        if waiting:
            self._try(waiting)
        return self._report()

    def say(self, text: str) -> None:
        self.screen.write(text + "\n")

    def _try(self, waiting: list[Mutant]) -> None:
        """The quick way first, in a process of its own; what survives it is imported anew."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os._exit(self._quickly(waiting, writing))
        os.close(writing)
        doubtful: list[tuple[Mutant, list[str]]] = []
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                number, result, *tests = line.rstrip("\n").split("\t")
                mutant = waiting[int(number)]
                is_sure = self.budget is not None and mutant.scope.function
                if result == trial.UNSWAPPED or (result == trial.SURVIVED and not is_sure):
                    doubtful.append((mutant, tests))
                else:
                    self._note(mutant, result)
        os.waitpid(child, 0)
        self.say(f"{len(doubtful)} to be imported anew")
        trial.get_ready()
        for mutant, tests in doubtful:
            self._note(mutant, trial.imported_anew(ROOT, self.modules[mutant.file], mutant, tests))

    def _quickly(self, waiting: list[Mutant], writing: int) -> int:
        number = {mutant.name: at for at, mutant in enumerate(waiting)}
        out = os.fdopen(writing, "w", buffering=1, encoding="utf-8")

        def told(mutant: Mutant, result: str) -> None:
            tests: list[str] = []
            if result in (trial.SURVIVED, trial.UNSWAPPED):
                tests = plugin.within_budget(plugin.reach.of(mutant))
            out.write("\t".join([str(number[mutant.name]), result, *tests]) + "\n")

        plugin = trial.Trial(ROOT, self.modules, waiting, told, self.say, self.budget)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        return int(pytest.main([*trial.OPTIONS, *self.tests], plugins=[plugin]))

    def _note(self, mutant: Mutant, result: str) -> None:
        self.results[mutant.name] = result
        self.ledger.note(mutant, result)
        self.tried += 1
        if self.tried % 100 == 0:
            self.say(f"{self.tried} tried, {time.monotonic() - self.began:.0f} s")

    def _report(self) -> int:
        unnoticed = 0
        by_folder: dict[str, Counter[str]] = {}
        for mutant in self.mutants:
            result: str = self.results.get(mutant.name, "not tried")
            if result in (trial.SURVIVED, trial.UNTESTED, trial.UNSWAPPED):
                if self.accepted.why(mutant) is not None:
                    result = "accepted"
                else:
                    unnoticed += 1
                    print(f"{result}: {mutant.file}:{mutant.first} {mutant.name}")
            by_folder.setdefault(mutant.file, Counter())[result] += 1
        for file, counts in by_folder.items():
            print(f"{file}: " + ", ".join(f"{n} {result}" for result, n in sorted(counts.items())))
        for name in self.accepted.unused(self.mutants):
            unnoticed += 1
            print(f"accepted, and no longer there: {name}")
        total = sum(by_folder.values(), Counter())
        print(f"{len(self.mutants)} mutants: " + ", ".join(f"{n} {r}" for r, n in sorted(total.items())))
        return 1 if unnoticed or total["not tried"] else 0


if __name__ == "__main__":
    sys.exit(main())
