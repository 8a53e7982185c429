"""The lifetime of what cannot change."""

from __future__ import annotations

from egress.secrets.lifetime import FOR_EVER


def test_for_ever_is_longer_than_anything() -> None:
    assert FOR_EVER.due == FOR_EVER.end > 1e300
