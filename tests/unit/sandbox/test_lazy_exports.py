"""What `egress` offers is loaded when it is asked for, and type checkers see the same names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import egress
from egress.sandbox.lazy_exports import STUB, attribute, homes, names


@pytest.mark.parametrize("name", homes())
def test_each_name_is_there(name: str) -> None:
    found = getattr(egress, name)
    assert found.__module__.startswith(homes()[name])
    assert found is attribute(name)


def test_what_is_not_there_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = egress.nonsense  # type: ignore[attr-defined]
    assert set(names()) == set(dir(egress))


def test_the_stub_is_that_of_the_package_and_offers_all_that_it_imports() -> None:
    assert Path(egress.__file__).with_suffix(".pyi") == STUB
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    (offered,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert set(ast.literal_eval(offered)) == set(names())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == homes()
    assert {"Sandbox", "AsyncSandbox", "ExecResult", "open_fleet", "SandboxError"} <= set(names())


def test_a_name_is_imported_as_it_is() -> None:
    """The stub is read for its names: another one behind `as` would not be found."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    for node in tree.body:
        assert not isinstance(node, ast.ImportFrom) or not any(alias.asname for alias in node.names)


def test_importing_it_loads_none_of_it() -> None:
    code = "import sys, egress; print(*[name for name in sys.modules if name.startswith('egress')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["egress"]
