"""The floors of coverage: every package has one, and a package below its floor is named with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.coverage_floors import (
    FOLDERS,
    Coverage,
    File,
    by_package,
    package_of,
    read_floors,
    shortfalls,
    table,
)

ROOT = Path(__file__).parents[2]
FLOORS = read_floors(ROOT / "pyproject.toml")


def test_every_package_has_a_floor_and_no_other_name_has() -> None:
    packages = {path.parent.name for path in (ROOT / "egress").glob("*/__init__.py")}
    assert set(FLOORS) == packages | {"egress"}


def test_no_floor_is_for_show() -> None:
    assert {name: floor for name, floor in FLOORS.items() if not 40 <= floor <= 100} == {}


def test_the_folders_that_are_measured_are_there() -> None:
    assert [folder for folder in FOLDERS if not (ROOT / folder).is_dir()] == []


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("egress/rules/load.py", "rules"),
        ("egress/runtime/docker/engine.py", "runtime"),
        ("egress/types.py", "egress"),
    ],
)
def test_a_file_counts_for_its_package(file: str, package: str) -> None:
    assert package_of(file) == package


def test_lines_and_branches_are_added_up_over_a_package() -> None:
    def of(lines: int, branches: int) -> File:
        counts = {"num_statements": 10, "num_branches": 4}
        return {"summary": {"covered_lines": lines, "covered_branches": branches, **counts}}

    files = {"egress/rules/a.py": of(10, 4), "egress/rules/b.py": of(6, 1), "egress/x.py": of(0, 0)}
    found = by_package({"files": files})
    assert found["rules"] == Coverage(21, 28)
    assert found["rules"].percent == 75
    assert found["egress"].percent == 0
    assert Coverage().percent == 100


def test_a_package_below_its_floor_is_named_with_the_cure() -> None:
    found = {"rules": Coverage(749, 1000), "scrub": Coverage(3, 4), "new": Coverage(1, 1)}
    floors = {"rules": 75.0, "scrub": 75.0, "old": 1.0}
    assert shortfalls(found, floors) == [
        "pyproject.toml: new has no floor; add it under [tool.egress.coverage_floors]",
        "pyproject.toml: there is no package old; take its floor out",
        "egress/rules: covered to 74.9 %, and its floor is 75 %; add tests for what the change brought",
    ]
    assert shortfalls({"scrub": found["scrub"]}, {"scrub": 75.0}) == []


def test_the_table_begins_with_the_least_covered() -> None:
    lines = table({"a": Coverage(9, 10), "b": Coverage(1, 2)}, {"a": 80.0}).splitlines()
    assert [line.split() for line in lines] == [
        ["package", "covered", "floor", "of"],
        ["b", "50.0%", "0", "2"],
        ["a", "90.0%", "80", "10"],
    ]
