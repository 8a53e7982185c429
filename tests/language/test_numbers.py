"""Every line of the rule language has its tests.

The language is docs/reference/language.md, numbered line by line. A test here begins with the number
of the line it is about, so that a line without a test cannot stay unnoticed.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

LINES = frozenset(range(1, 45)) - {31}
TEST = re.compile(r"test_([0-9]{2})_")


def test_every_line_of_the_language_has_a_test() -> None:
    numbers = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (match := TEST.match(node.name)):
                numbers.add(int(match[1]))
    assert numbers == LINES
