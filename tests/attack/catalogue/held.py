"""Which tests of this folder hold which case: read from the decorators, so that nothing is written twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def functions(file: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a file by name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def decorations() -> Iterator[tuple[Path, str, ast.Call]]:
    """Every use of the decorator `case`, with the test below it."""
    for file in sorted(HERE.glob("test_*.py")):
        for name, function in functions(file).items():
            for found in function.decorator_list:
                if (
                    isinstance(found, ast.Call)
                    and isinstance(found.func, ast.Name)
                    and found.func.id == "case"
                ):
                    yield file, name, found


def held_here() -> dict[str, list[str]]:
    """The cases with their tests in this folder, as paths below `tests/`."""
    held: dict[str, list[str]] = {}
    for file, name, call in decorations():
        for number in str(ast.literal_eval(call.args[0])).split():
            held.setdefault(number, []).append(f"attack/catalogue/{file.name}::{name}")
    return held
