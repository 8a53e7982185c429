"""The defaults, compared with each other and with what reads on behind the door."""

from __future__ import annotations

from dataclasses import fields

from egress.http1 import MessageLimits
from egress.proxy.ingress.client_stream import READ_SIZE
from egress.proxy.ingress.limits import IngressLimits


def test_everything_has_a_bound() -> None:
    bounds = IngressLimits()
    assert all(getattr(bounds, field.name) > 0 for field in fields(bounds))


def test_the_door_takes_no_longer_head_than_the_codec() -> None:
    """A lane reads the same head again, with the bounds of the codec."""
    assert IngressLimits().head <= MessageLimits().head


def test_what_is_kept_of_one_client_is_bounded_by_two_reads() -> None:
    assert IngressLimits().head <= READ_SIZE
