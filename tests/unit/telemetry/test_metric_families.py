"""Families are made of counts."""

from __future__ import annotations

from egress.telemetry.metric_families import by_label


def test_points_are_sorted_by_their_label() -> None:
    family = by_label("x_total", "X.", "code", {"b": 2, "a": 1})
    assert family.points == (((("code", "a"),), 1), ((("code", "b"),), 2))
