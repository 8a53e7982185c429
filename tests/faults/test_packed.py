"""An answer that packs well passes as a whole: what it unpacks to is no reason to lose a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.memory_limit import MIB, bounded, packed, told, unpack
from tests.faults.seeded_random import SeededRandom

# Its memory is its own from the start: what a fork server has freed would hide what is taken.
pytestmark = pytest.mark.real_process

SIZE = 256 * MIB
NOISE = SeededRandom("noise").randbytes(MIB // 100)
"""A hundredth of each mebibyte: what comes in one read unpacks to a hundred times as much."""


async def test_256_mib_that_came_as_three(tmp_path: Path) -> None:
    """The twin of the bomb."""
    contents = packed(SIZE, NOISE)
    assert len(contents) < 4 * MIB
    async with bounded(tmp_path) as estate:
        response = await unpack(estate, contents)
        assert {line["code"] for line in await told(estate)} == {"rule.allowed"}
        assert response.complete
        assert response.size == SIZE
