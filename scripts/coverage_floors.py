"""Measures which branches the quick tests reach, by package, and fails under the floors of pyproject.toml.

`python -m scripts.coverage_floors` runs the tests of `FOLDERS` and prints a table. The floors are a ratchet:
raise one when its package has gained, never lower one to make a change pass. `FOLDER ...` behind the command
measures other folders, and holds them to no floor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".cache/coverage"
# Folders whose tests judge values, not time: under coverage a test takes more than twice as long.
FOLDERS = (
    *("tests/unit", "tests/property", "tests/language", "tests/presets"),
    *("tests/addons", "tests/telemetry", "tests/tls", "tests/unix", "tests/fleet", "tests/mcp", "tests/ui"),
)


@dataclass(slots=True)
class Coverage:
    """Lines and branches of one package: those that ran, and those that there are."""

    covered: int = 0
    total: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.total if self.total else 100.0


class File(TypedDict):
    """One file of a JSON report, as far as it is read here."""

    summary: dict[str, int]


class Report(TypedDict):
    """The JSON report of coverage, as far as it is read here."""

    files: dict[str, File]


def package_of(file: str) -> str:
    """The package of a file: `rules` for `egress/rules/compile/load.py`, `egress` for `egress/types.py`."""
    parts = Path(file).parts
    return parts[1] if len(parts) > 2 else parts[0]


def by_package(report: Report) -> dict[str, Coverage]:
    """Add up a JSON report of coverage."""
    found: dict[str, Coverage] = {}
    for file, measured in report["files"].items():
        summary = measured["summary"]
        package = found.setdefault(package_of(file), Coverage())
        package.covered += summary["covered_lines"] + summary["covered_branches"]
        package.total += summary["num_statements"] + summary["num_branches"]
    return found


def shortfalls(found: Mapping[str, Coverage], floors: Mapping[str, float]) -> list[str]:
    """Sentences about packages below their floor, without a floor, or with a floor and no code."""
    lines = []
    for name in sorted(found.keys() | floors.keys()):
        if name not in floors:
            lines.append(f"pyproject.toml: {name} has no floor; add it under [tool.egress.coverage_floors]")
        elif name not in found:
            lines.append(f"pyproject.toml: there is no package {name}; take its floor out")
        elif found[name].percent < floors[name]:
            percent = f"{found[name].percent:.1f} %, and its floor is {floors[name]:g} %"
            lines.append(f"egress/{name}: covered to {percent}; add tests for what the change brought")
    return lines


def read_floors(project: Path) -> dict[str, float]:
    """The floors of a pyproject.toml, by package."""
    tool = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]
    return {str(name): float(floor) for name, floor in tool["egress"]["coverage_floors"].items()}


def table(found: Mapping[str, Coverage], floors: Mapping[str, float]) -> str:
    """One line for each package, the least covered first."""
    rows = sorted(found.items(), key=lambda item: item[1].percent)
    lines = [f"{'package':<14}{'covered':>9}{'floor':>7}{'of':>8}"]
    for name, one in rows:
        lines.append(f"{name:<14}{one.percent:>8.1f}%{floors.get(name, 0):>7g}{one.total:>8}")
    return "\n".join(lines)


def measure(folders: Iterable[str]) -> tuple[int, Report]:
    """Run the tests of some folders under coverage; returns pytest's status and the report."""
    DATA.mkdir(parents=True, exist_ok=True)
    for old in DATA.glob("data*"):
        old.unlink()
    data = f"--data-file={DATA / 'data'}"
    # Each worker and each process that a test starts writes a file of its own; `combine` joins them.
    tests = [*_coverage("run", data), "-m", "pytest", "-q", "-n", "2", "--inline-snapshot=disable", *folders]
    status = subprocess.run(tests, cwd=ROOT, check=False).returncode
    report = DATA / "report.json"
    subprocess.run(_coverage("combine", "--quiet", data), cwd=ROOT, check=True)
    subprocess.run(_coverage("json", "--quiet", data, "-o", str(report)), cwd=ROOT, check=True)
    return status, json.loads(report.read_text(encoding="utf-8"))


def _coverage(verb: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "coverage", verb, *options]


def main() -> None:
    named = sys.argv[1:]
    status, report = measure(named or FOLDERS)
    found = by_package(report)
    floors = read_floors(ROOT / "pyproject.toml")
    print(table(found, floors))
    wrong = [] if named else shortfalls(found, floors)
    for line in wrong:
        print(line)
    sys.exit(status or bool(wrong))


if __name__ == "__main__":
    main()
