"""The shape of the tree: every module has its test file, a size that can be read, and a first sentence."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "egress"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 500

# Modules without a test file of their own, each with its reason.
UNTESTED = {
    "__init__.py": "only re-exports, which a test below holds it to",
    "__main__.py": "one call",
}
# Tests of these rooms need more than a function call; they live in a folder of that name below tests/.
ROOMS = (
    "addons",
    "api",
    "api_server",
    "cli/sandboxes",
    "cluster",
    "fleet",
    "mcp",
    "netlock",
    "proxy",
    "runtime",
    "telemetry",
    "tls",
    "ui",
    "unix",
)
# A module whose tests share the sockets of another room.
ELSEWHERE = {"control_client.py": "tests/unix"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def homes(module: Path) -> list[Path]:
    """The folders that may hold a module's tests: the mirror in tests/unit, or a room of its own."""
    inside = module.relative_to(PACKAGE)
    found = [ROOT / "tests/unit" / inside.parent]
    for room in ROOMS:
        if inside.is_relative_to(room):
            found += [ROOT / "tests" / room, ROOT / "tests" / inside.parent]
    if inside.name in ELSEWHERE:
        found.append(ROOT / ELSEWHERE[inside.name])
    return found


def mirror_files(module: Path) -> list[Path]:
    """`test_<module>.py`, and one file for each topic: `test_<module>_<topic>.py`."""
    return [
        test
        for home in homes(module)
        for test in (home / f"test_{module.name}", *home.glob(f"test_{module.stem}_*.py"))
        if test.is_file()
    ]


def test_every_module_has_its_test_file() -> None:
    tested = (module for module in MODULES if module.name not in UNTESTED)
    missing = [name(homes(m)[0] / f"test_{m.name}") for m in tested if not mirror_files(m)]
    assert not missing, f"to be written: {', '.join(missing)}"


def test_every_folder_with_code_is_a_package() -> None:
    """The import contracts do not see a folder without `__init__.py`, nor anything in it."""
    bare = {name(module.parent) for module in MODULES if not module.with_name("__init__.py").is_file()}
    assert not bare, f"without __init__.py: {', '.join(sorted(bare))}"


def test_every_unit_test_file_has_its_module() -> None:
    found = {test for module in MODULES for test in mirror_files(module)}
    orphans = [name(test) for test in (ROOT / "tests/unit").rglob("test_*.py") if test not in found]
    assert not orphans, f"no module for: {', '.join(orphans)}"


def test_a_module_can_be_read_in_one_sitting() -> None:
    lengths = {name(module): len(text(module).splitlines()) for module in MODULES}
    too_long = {module: lines for module, lines in lengths.items() if lines > MOST_LINES}
    assert not too_long, "each holds two ideas: give each its file"


def test_a_module_says_what_it_is_for() -> None:
    silent = [name(module) for module in MODULES if not ast.get_docstring(ast.parse(text(module)))]
    assert not silent, f"say what it is for and what it must not do: {', '.join(silent)}"


def test_a_package_file_holds_no_logic() -> None:
    plain = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr
    for package in (module for module in MODULES if module.name == "__init__.py"):
        for node in ast.parse(text(package)).body:
            assert isinstance(node, plain), (
                f"{name(package)}:{node.lineno}: move it into a module with a test"
            )
