"""The bounds a reader is given are the bounds it keeps; what each does is tested where it bites."""

from __future__ import annotations

import dataclasses

import pytest

from egress.http1 import MessageLimits


def test_a_set_of_limits_cannot_be_changed_once_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        MessageLimits().head = 1 << 30  # type: ignore[misc]


@pytest.mark.parametrize("field", dataclasses.fields(MessageLimits), ids=lambda field: field.name)
def test_nothing_is_unbounded_by_default(field: dataclasses.Field[int]) -> None:
    assert 0 < getattr(MessageLimits(), field.name) <= 1 << 20


def test_the_defaults_are_what_they_were() -> None:
    """A client that works today sends heads of today's size tomorrow: changing one is a decision."""
    assert MessageLimits() == MessageLimits(
        head=65_536,
        fields=128,
        target=16_384,
        chunk_extension=256,
        chunk_extensions=16_384,
        trailers=8_192,
        trailer_fields=32,
        informational=16,
        pending=262_144,
    )
