"""What may be asked of the log is bounded, and names no other run."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.log_schema import MAX_LOG_LINES, AuditQuery, LogQuery


@pytest.mark.parametrize(
    "wrong",
    [{"run": "a"}, {"limit": MAX_LOG_LINES + 1}, {"last": -1}, {"grep": "a" * 513}, {"verdict": "no"}],
    ids=str,
)
def test_more_than_the_bounds_is_refused(wrong: object) -> None:
    for kind in (AuditQuery, LogQuery):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, kind)


def test_only_the_log_of_the_run_is_asked_for_a_sandbox() -> None:
    assert msgspec.convert({"sandbox": "a"}, LogQuery).sandbox == "a"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"sandbox": "a"}, AuditQuery)
