"""The defaults, compared with each other and with what reads on behind the door."""

from __future__ import annotations

from dataclasses import fields

from egress.http1 import Limits
from egress.proxy.bounds import DoorLimits
from egress.proxy.client import READ


def test_everything_has_a_bound() -> None:
    bounds = DoorLimits()
    assert all(getattr(bounds, field.name) > 0 for field in fields(bounds))


def test_no_sandbox_can_take_all_places() -> None:
    assert DoorLimits().sandbox_connections * 2 <= DoorLimits().connections


def test_the_door_takes_no_longer_head_than_the_codec() -> None:
    """A lane reads the same head again, with the bounds of the codec."""
    assert DoorLimits().head <= Limits().head


def test_what_is_kept_of_one_client_is_bounded_by_two_reads() -> None:
    assert DoorLimits().head <= READ
