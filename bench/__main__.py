"""`python -m bench`: run every benchmark here and print one table. Prints numbers, judges nothing.

Each module has `run()`, which returns rows: what, how much, unit, target (or None). Machines differ and
are noisy: the best of several tries is taken, and a target is a bound for a quiet machine like ours.

    python -m bench            all
    python -m bench scrub      one
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

Row = tuple[str, float, str, float | None]


def modules(wanted: list[str]) -> list[str]:
    """The benchmarks of this folder, or those that were asked for."""
    here = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
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
    for name in modules(sys.argv[1:]):
        print(name, flush=True)
        for row in importlib.import_module(f"bench.{name}").run():
            print(show(row), flush=True)


if __name__ == "__main__":
    main()
