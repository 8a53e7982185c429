"""The bounds of a relay as they are unless somebody says otherwise."""

from __future__ import annotations

import dataclasses

import pytest

from egress.relay.limits import RelayLimits


def test_every_bound_is_one() -> None:
    assert all(value > 0 for value in dataclasses.astuple(RelayLimits()) if type(value) in {int, float})


def test_a_refusal_can_be_read_before_the_connection_closes_and_sooner_than_anything_else_ends() -> None:
    limits = RelayLimits()
    assert 0 < limits.linger < limits.head < limits.response_head < limits.silence
    assert limits.upstream_idle < limits.keep_alive, "the client's side outlives what is kept for it"


def test_a_relay_that_rests_is_looked_at_several_times_before_its_time_is_over() -> None:
    limits = RelayLimits()
    assert 4 * limits.rest_tick <= limits.upstream_idle <= limits.keep_alive
    assert RelayLimits(keep_alive=6.0).rest_tick == 1.0


def test_bounds_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RelayLimits().head = 1.0  # type: ignore[misc]
