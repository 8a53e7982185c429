"""What a sandbox costs: until it takes commands, for each command, in memory, and in what is left of it.

Times are held against the same thing without any of this, on the same machine at the same moment: a machine
that is busy makes both longer. Each kind of sandbox has a file here, with a `rows()` of its own.
"""

from __future__ import annotations

from bench.sandbox import containers, namespaces

Row = tuple[str, float, str, float | None]

KINDS = (containers.rows, namespaces.rows)
"""Another kind adds its own here."""


def run() -> list[Row]:
    return [row for rows in KINDS for row in rows()]
