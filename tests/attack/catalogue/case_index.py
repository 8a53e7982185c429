"""Which tests hold which case: read from decorators here, and from the first words of those in sandboxes.

So nothing is written twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
SHARED = ("runtime/escape_cases.py", "runtime/contract.py")
"""The lists that every kind of sandbox is held to."""
IN_SANDBOXES = (
    *(*SHARED, "runtime/test_escapes.py", "runtime/namespace/test_escapes.py"),
    "runtime/test_runtime.py",
)
"""What is tried from inside of a sandbox: the numbers stand before the colon of a docstring."""

_NUMBERS = re.compile(r"S-(\d+)(?: to S-(\d+))?")


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


def held_in_sandboxes() -> dict[str, list[str]]:
    """The cases with the tests that try them from inside of a sandbox, as paths below `tests/`."""
    held: dict[str, list[str]] = {}
    for path in IN_SANDBOXES:
        for name, function in functions(TESTS / path).items():
            for number in _numbers((ast.get_docstring(function) or "").partition(":")[0]):
                held.setdefault(number, []).append(f"{path}::{name}")
    return held


def _numbers(words: str) -> Iterator[str]:
    for first, last in _NUMBERS.findall(words):
        yield from (f"S-{number:02}" for number in range(int(first), int(last or first) + 1))
