"""A span of time is told in the unit that says most."""

from __future__ import annotations

import pytest

from egress.cli.time_span import span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "120m"), (7200, "2h"), (172_800, "2d")],
)
def test_a_span_has_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text
