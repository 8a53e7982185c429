"""`python -m bench`: run every benchmark here and print one table. Prints numbers, judges nothing.

Each module has `run()`, which returns rows: what, how much, unit, target (or None). Machines differ and
are noisy: the best of several tries is taken, and a target is a bound for a quiet machine like ours.
A folder is a benchmark too; instead of rows it may have `table(quick=...)`, which returns Markdown.

    python -m bench                  all
    python -m bench scrub            one
    python -m bench proxy --quick    less exact, in less time
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

Row = tuple[str, float, str, float | None]


def modules(wanted: list[str]) -> list[str]:
    """The benchmarks of this folder, or those that were asked for."""
    folder = Path(__file__).parent
    found = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/__init__.py"))]
    here = sorted(path.stem for path in found if not path.stem.startswith("_"))
    unknown = set(wanted) - set(here)
    if unknown:
        sys.exit(f"bench: no such benchmark: {', '.join(sorted(unknown))} (there are {', '.join(here)})")
    return wanted or here


def show(row: Row) -> str:
    """One row of the table; speeds are better when larger, times when smaller."""
    name, value, unit, target = row
    if target is None:
        return f"  {name:<58} {value:>10.2f} {unit}"
    is_speed = unit.endswith("/s")
    met = value >= target if is_speed else value <= target
    bound = f"{'>=' if is_speed else '<='} {target:g}"
    return f"  {name:<58} {value:>10.2f} {unit:<6} {bound:>10}  {'ok' if met else 'MISSED'}"


def main() -> None:
    """Print the table, module by module."""
    words = sys.argv[1:]
    quick = "--quick" in words
    for name in modules([word for word in words if word != "--quick"]):
        print(name, flush=True)
        module = importlib.import_module(f"bench.{name}")
        if hasattr(module, "table"):
            print(module.table(quick=quick), flush=True)
            continue
        for row in module.run():
            print(show(row), flush=True)


if __name__ == "__main__":
    main()
