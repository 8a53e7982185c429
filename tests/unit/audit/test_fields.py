"""Types of fields: their bounds hold where a line is read."""

from __future__ import annotations

import msgspec
import pytest

from egress.audit.fields import CUT_MARK, MAX_NAME, MAX_NUMBER, Count, Name, about, text


@pytest.mark.parametrize(
    ("kind", "value"), [(Name, "x" * MAX_NAME + CUT_MARK), (Count, 0), (Count, MAX_NUMBER - 1), (Name, "")]
)
def test_what_is_within_bounds_is_taken(kind: type, value: object) -> None:
    assert msgspec.convert(value, kind) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Name, "x" * (MAX_NAME + 2)), (Count, -1), (Count, MAX_NUMBER), (Count, True), (Name, 1)],
)
def test_what_is_beyond_them_is_refused(kind: type, value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, kind)


def test_a_field_carries_its_meaning_and_its_example() -> None:
    meta = about("The host.", "api.github.com", csv=True)
    assert (meta.description, meta.examples, meta.extra) == ("The host.", ["api.github.com"], {"csv": True})
    assert text(5).max_length == 6
