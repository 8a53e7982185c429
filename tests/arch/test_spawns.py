"""A Python that we start finds no module in the folder it is started in: a sandbox may have written there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path for room in ("egress", "container") for path in (ROOT / room).rglob("*.py"))
SAFE = {"-P", "-I"}

# Those that speak of this Python without such a command, each with its reason.
NO_COMMAND = {
    "egress/secrets/environment_capture.py": "goes on as it was started, with the same words",
    "egress/fleet/mount_policy.py": "says where it is",
    "egress/runtime/namespace/kernel_support.py": "names it in an error",
}


def is_this_python(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "executable"


def is_unsafe(command: ast.List | ast.Tuple) -> bool:
    """Whether it starts this Python, or a module with any, and the first flag lets it look around."""
    words = [word.value if isinstance(word, ast.Constant) else word for word in command.elts]
    starts = [at for at, word in enumerate(command.elts) if is_this_python(word)]
    if not starts and "-m" in words:
        starts = [0]
    return any(not SAFE.intersection(words[at + 1 : at + 2]) for at in starts)


def faults(source: str, *, may_speak_of_it: bool = False) -> list[int]:
    """The lines of commands that are not safe, and of other mentions that nobody has judged."""
    nodes = list(ast.walk(ast.parse(source)))
    commands = [node for node in nodes if isinstance(node, ast.List | ast.Tuple)]
    judged = {id(word) for command in commands for word in command.elts}
    found: list[ast.expr] = [command for command in commands if is_unsafe(command)]
    if not may_speak_of_it:
        spoken = (node for node in nodes if isinstance(node, ast.Attribute) and is_this_python(node))
        found += [node for node in spoken if id(node) not in judged]
    return sorted({node.lineno for node in found})


def test_nothing_is_imported_from_the_folder_that_a_python_is_started_in() -> None:
    for program in PROGRAMS:
        place = program.relative_to(ROOT).as_posix()
        lines = faults(program.read_text(encoding="utf-8"), may_speak_of_it=place in NO_COMMAND)
        assert not lines, f"{place}:{lines[0]}: a Python is started there: its first flag must be -P or -I"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("[sys.executable, '-P', '-m', 'egress']", []),
        ("(*own, sys.executable, '-I', '-S', file)", []),
        ("[sys.executable, '-m', 'egress']", [1]),
        ("[sys.executable, *words]", [1]),
        ("(*own, sys.executable)", [1]),
        ("[str(base), '-m', 'pip']", [1]),
        ("[str(base), '-P', '-m', 'pip']", []),
        ("program = sys.executable", [1]),
        ("os.execv(sys.executable, words)", [1]),
        ("['/bin/sh', '-c', script]", []),
    ],
)
def test_every_way_of_starting_one_is_seen(source: str, found: list[int]) -> None:
    assert faults(source) == found
