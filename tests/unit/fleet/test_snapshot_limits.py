"""Limits of snapshots come from variables, and a wrong one is named."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.fleet.snapshot_limits import DEFAULT_SNAPSHOT_LIMITS, SnapshotLimits, read_limits


def test_without_variables_the_usual_ones_hold() -> None:
    assert read_limits({"EGRESS_SNAPSHOT_QUOTA": "", "HOME": "/"}) == DEFAULT_SNAPSHOT_LIMITS


def test_each_is_read() -> None:
    found = {"EGRESS_SNAPSHOT_QUOTA": "2 GiB", "EGRESS_SNAPSHOT_COUNT": "7", "EGRESS_SNAPSHOT_AGE": "30d"}
    assert read_limits(found) == SnapshotLimits(max_bytes=2 << 30, max_count=7, max_age=30 * 86400)
    assert read_limits({"EGRESS_SNAPSHOT_QUOTA": "4096"}).max_bytes == 4096


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EGRESS_SNAPSHOT_QUOTA", "much"),
        ("EGRESS_SNAPSHOT_QUOTA", "-1"),
        ("EGRESS_SNAPSHOT_AGE", "0"),
        ("EGRESS_SNAPSHOT_AGE", "long"),
        *(("EGRESS_SNAPSHOT_COUNT", text) for text in ("0", "-1", "ten", "10001", "9" * 5000, "٣")),
    ],
)
def test_a_wrong_one_is_named_and_not_quoted(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_limits({name: value})
    assert caught.value.message.startswith(f"{name}: ")
    assert value not in caught.value.message or len(value) < 3
