"""The bounds a reader is given are the bounds it keeps; what each does is tested where it bites."""

from __future__ import annotations

import dataclasses

import pytest

from egress.http1 import Limits


def test_a_set_of_limits_cannot_be_changed_once_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().head = 1 << 30  # type: ignore[misc]


@pytest.mark.parametrize("field", dataclasses.fields(Limits), ids=lambda field: field.name)
def test_nothing_is_unbounded_by_default(field: dataclasses.Field[int]) -> None:
    assert 0 < getattr(Limits(), field.name) <= 1 << 20
