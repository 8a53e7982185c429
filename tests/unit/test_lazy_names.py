"""What a package offers is loaded when it is asked for, and type checkers see the same names."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import egress
from egress.lazy_names import homes, stub

ROOM_PACKAGES = ("egress.audit", "egress.ca", "egress.fleet", "egress.review", "egress.secrets")
PACKAGES = ("egress", *ROOM_PACKAGES)
NAMES = [(package, name) for package in PACKAGES for name in homes(package)]


def tree(package: str) -> ast.Module:
    return ast.parse(stub(package).read_text(encoding="utf-8"))


def offered(package: str) -> set[str]:
    (found,) = [node.value for node in tree(package).body if isinstance(node, ast.Assign)]
    return set(ast.literal_eval(found))


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[f"{package}.{name}" for package, name in NAMES])
def test_each_name_is_there(package: str, name: str) -> None:
    home = importlib.import_module(homes(package)[name])
    assert getattr(importlib.import_module(package), name) is getattr(home, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_not_there_is_missing_as_usual(package: str) -> None:
    found = importlib.import_module(package)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = found.nonsense
    assert not hasattr(found, "__nonsense__")


def test_the_names_of_the_root_are_listed() -> None:
    assert set(dir(egress)) == offered("egress")
    assert {"Sandbox", "AsyncSandbox", "ExecResult", "open_fleet", "SandboxError"} <= set(dir(egress))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_is_that_of_the_package_and_offers_all_that_it_imports(package: str) -> None:
    place = importlib.import_module(package).__file__
    assert place is not None
    assert Path(place).with_suffix(".pyi") == stub(package)
    imports = [node for node in tree(package).body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == homes(package)
    assert offered(package) - {"__version__"} == set(homes(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_is_imported_as_it_is(package: str) -> None:
    """The stub is read for its names: another one behind `as` would not be found."""
    for node in tree(package).body:
        assert not isinstance(node, ast.ImportFrom) or not any(alias.asname for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module(package: str) -> None:
    """The import system would set the attribute to the module."""
    modules = {each.name for each in pkgutil.iter_modules(importlib.import_module(package).__path__)}
    assert modules
    assert not modules & set(homes(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_it_loads_none_of_it(package: str) -> None:
    code = f"import sys, {package}; print(*[name for name in sys.modules if name.startswith('egress')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    around = {"egress"} if package == "egress" else {"egress", "egress.lazy_names", package}
    assert set(run.stdout.split()) == around
