"""Which values of one secret are searched for, and how long."""

from __future__ import annotations

from egress.secrets.trail import KEPT, MOST, Known, Trail
from egress.secrets.value import Value
from tests.unit.secrets.rig import OTHER, TOKEN

ONE, TWO = object(), object()


def values(known: tuple[Known, ...]) -> list[bytes]:
    return [one.value.named("x").reveal() for one in known]


def test_a_replaced_value_stays_for_an_hour() -> None:
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    trail.add("x", Value(OTHER), ONE, 10)
    assert values(trail.alive(10)) == [TOKEN, OTHER]
    assert values(trail.alive(10 + KEPT - 1)) == [TOKEN, OTHER]
    assert values(trail.alive(10 + KEPT)) == [OTHER]
    assert values(trail.alive(1e12)) == [OTHER]


def test_a_value_that_comes_back_is_known_once() -> None:
    trail = Trail()
    for at, value in enumerate([TOKEN, OTHER, TOKEN]):
        trail.add("x", Value(value), ONE, at)
    assert values(trail.alive(2)) == [OTHER, TOKEN]
    assert values(trail.alive(1e12)) == [TOKEN]


def test_what_is_alive_is_the_same_until_something_changes() -> None:
    """So it can be the key of what is built of it."""
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    assert trail.alive(0) == trail.alive(5)
    before = trail.alive(5)
    trail.add("x", Value(OTHER), ONE, 6)
    assert trail.alive(6) != before


def test_the_value_of_another_owner_stays_in_use() -> None:
    """A policy that is being replaced may ask its source once more; the new one must not suffer."""
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    trail.add("x", Value(OTHER), TWO, 0)
    assert values(trail.alive(1e12)) == [TOKEN, OTHER]
    trail.retire(ONE, 0)
    assert values(trail.alive(KEPT)) == [OTHER]


def test_only_the_newest_are_kept_and_never_without_those_in_use() -> None:
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    for number in range(50):
        trail.add("x", Value(b"token-%08d" % number), TWO, number)
    found = values(trail.alive(50))
    assert len(found) == MOST
    assert TOKEN in found
    assert b"token-00000049" in found


def test_a_short_value_ends_the_one_before_and_is_not_searched_for() -> None:
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    trail.add("x", Value(b"short"), ONE, 0)
    assert values(trail.alive(0)) == [TOKEN]
    assert trail.alive(KEPT) == ()


def test_shows_no_value() -> None:
    assert "tok_" not in repr(Known("x", Value(TOKEN), ONE))


def test_a_value_that_is_carried_stays_until_it_is_let_go() -> None:
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    (carried,) = trail.in_use()
    carried.carried += 1
    trail.add("x", Value(OTHER), ONE, 1)
    assert trail.is_carried
    assert values(trail.alive(1e12)) == [TOKEN, OTHER]
    carried.carried -= 1
    assert values(trail.alive(1e12)) == [OTHER]
    assert not any(known.carried for known in trail.alive(1e12))


def test_what_was_replaced_is_not_in_use() -> None:
    """Else there would be no end to it where exchanges overlap."""
    trail = Trail()
    trail.add("x", Value(TOKEN), ONE, 0)
    trail.add("x", Value(OTHER), ONE, 1)
    assert values(tuple(trail.in_use())) == [OTHER]
    trail.retire(ONE, 2)
    assert trail.in_use() == []
