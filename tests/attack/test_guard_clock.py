"""The stories of the fault tests where nothing fails but the time: a clock that jumps while a step is made.

A machine that stands still between two looks at the clock ends turns that have hardly begun. Nothing ticks in
this lab, so what such a turn leaves must be taken up by the turns and the loop alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.proxy.clock import SystemClock
from egress.proxy.event_loop import FairEventLoop
from egress.shares.turns import LONE_TURN_SECONDS, MAX_OWED_SECONDS
from tests.attack.test_guard import STORIES
from tests.proxy.lab.failing_call import Scene
from tests.proxy.lab.loopback import loopback_only


class JumpingClock(SystemClock):
    """The clock of the machine, which jumps ahead at each look, or at each of so many."""

    def __init__(self, seconds: float, looks: int) -> None:
        self._jumps = itertools.cycle([*[0.0] * (looks - 1), seconds])
        self._ahead = 0.0

    def monotonic(self) -> float:
        self._ahead += next(self._jumps)
        return SystemClock.monotonic() + self._ahead


@pytest.mark.parametrize(("looks", "seconds"), [(1, LONE_TURN_SECONDS), (3, MAX_OWED_SECONDS)])
@pytest.mark.parametrize("loop", [FairEventLoop, asyncio.SelectorEventLoop])
def test_a_clock_that_jumps_holds_no_story_up(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], looks: int, seconds: float
) -> None:
    async def play() -> None:
        async with Scene.of(tmp_path, clock=JumpingClock(seconds, looks)) as scene:
            # Not alone: only then does the loop hold events back.
            scene.stack.engine.turns.of("another")
            for name, story in STORIES.items():
                seen = await scene.play_once(story)
                assert len(seen.records) == 1, (name, seen)

    with loopback_only(), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())
