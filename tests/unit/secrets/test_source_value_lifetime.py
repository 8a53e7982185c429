"""The lifetime of what cannot change."""

from __future__ import annotations

from egress.secrets.source_value import ENDLESS_LIFETIME


def test_for_ever_is_longer_than_anything() -> None:
    assert ENDLESS_LIFETIME.due == ENDLESS_LIFETIME.end > 1e300
