"""What the gate runs of cases that are a product of two lists; the night runs all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import pytest
from _pytest.mark.structures import ParameterSet

from tests.conftest import GATE_EXAMPLES, IS_NIGHTLY

ALSO = pytest.mark.nightly


def examples(usual: int) -> int:
    """How many examples hypothesis tries where a test wants another number than the rest."""
    return max(10 * usual, 2000) if IS_NIGHTLY else min(usual, GATE_EXAMPLES)


def pairwise[A: Hashable](
    things: Sequence[A], kinds: Sequence[str], name: Callable[[A], str], whole: Sequence[A] = ()
) -> list[ParameterSet]:
    """Each thing with each kind. The gate has each thing once, the kinds in turn, and `whole` with all."""
    return [
        pytest.param(
            thing,
            kind,
            id=f"{name(thing)}-{kind}",
            marks=() if thing in whole or (place - turn) % len(kinds) == 0 else ALSO,
        )
        for place, thing in enumerate(things)
        for turn, kind in enumerate(kinds)
    ]


def every_third[A](things: Sequence[A]) -> list[ParameterSet]:
    """Cases that are tried elsewhere, and here once more in another way: the gate has a third of them."""
    return [pytest.param(thing, marks=ALSO if place % 3 else ()) for place, thing in enumerate(things)]
