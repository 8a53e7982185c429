"""Every package of an extra is imported by the code: an extra promises a feature to who installs it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def imported(sources: Iterable[str]) -> set[str]:
    """The top-level names of all modules that are imported anywhere in these sources."""
    found = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            found |= {name.partition(".")[0] for name in names}
    return found


def unused(extras: dict[str, list[str]], modules: set[str]) -> list[str]:
    """Requirements of which no module is imported, each as `extra: requirement`."""
    homes = packages_distributions()
    used = {canonicalize_name(name) for module in modules for name in homes.get(module, ())}
    return [
        f"{extra}: {text}"
        for extra, texts in extras.items()
        for text in texts
        if canonicalize_name(Requirement(text).name) not in used
    ]


def test_every_extra_has_code_behind_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "egress").rglob("*.py"))
    found = unused(project["optional-dependencies"], imported(sources))
    assert not found, f"pyproject.toml: nothing imports {', '.join(found)}: take it out, or write the code"


def test_an_extra_without_code_would_be_found() -> None:
    modules = imported(["import click.core", "def f():\n    from rich.table import Table"])
    assert modules == {"click", "rich"}
    assert unused({"a": ["Click>=8"], "b": ["rich", "hvac>=2.3"]}, modules) == ["b: hvac>=2.3"]
