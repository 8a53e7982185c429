"""The configuration of mutmut names modules and tests that are there: a missing one would be skipped."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTMUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


def missing(names: list[str]) -> list[str]:
    return [name for name in names if not any(ROOT.glob(name))]


def test_every_module_and_test_that_is_named_is_there() -> None:
    assert missing([*MUTMUT["source_paths"], *MUTMUT["only_mutate"], *MUTMUT["do_not_mutate"]]) == []
    assert missing([*MUTMUT["also_copy"], *MUTMUT["pytest_add_cli_args_test_selection"]]) == []


def test_a_name_that_is_gone_would_be_found() -> None:
    assert missing(["egress/rules/*", "egress/nowhere.py", "egress/nowhere/*"]) == [
        "egress/nowhere.py",
        "egress/nowhere/*",
    ]
