"""All kinds of neighbours: `python -m bench.neighbours.hostile STAGE KIND` is one until it is ended."""

from __future__ import annotations

import asyncio
import sys

# Each notes the kinds that it has.
from bench.neighbours import connection_kinds, http1_kinds, http2_kinds, other_kinds  # noqa: F401
from bench.neighbours.neighbour import KINDS, Neighbour
from bench.neighbours.setting import Stage

if __name__ == "__main__":
    asyncio.run(KINDS[sys.argv[2]](Neighbour(Stage.of(sys.argv[1]))))  # type: ignore[arg-type]
