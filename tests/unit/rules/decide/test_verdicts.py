"""Readings of a path on which denies are matched."""

from __future__ import annotations

import pytest

from egress.rules.decide.verdicts import deny_readings


@pytest.mark.parametrize(
    ("path", "readings"), [("/a", ("/a",)), ("/a*", ("/a%2A",)), ("/a%2Fb", ("/a%2Fb", "/a/b"))]
)
def test_an_escaped_slash_is_read_both_ways(path: str, readings: tuple[str, ...]) -> None:
    assert deny_readings(path) == readings
