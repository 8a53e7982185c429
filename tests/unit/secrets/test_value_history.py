"""Which values of one secret are searched for, and how long."""

from __future__ import annotations

from egress.secrets.source_value import SourceValue
from egress.secrets.value_history import MAX_VALUES, REPLACED_VALUE_LIFETIME, KnownValue, ValueHistory
from tests.unit.secrets.secret_samples import OTHER, TOKEN

ONE, TWO = object(), object()


def values(known: tuple[KnownValue, ...]) -> list[bytes]:
    return [one.value.secret_named("x").reveal() for one in known]


def test_a_replaced_value_stays_for_an_hour() -> None:
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    trail.add("x", SourceValue(OTHER), ONE, 10)
    assert values(trail.searched_values(10)) == [TOKEN, OTHER]
    assert values(trail.searched_values(10 + REPLACED_VALUE_LIFETIME - 1)) == [TOKEN, OTHER]
    assert values(trail.searched_values(10 + REPLACED_VALUE_LIFETIME)) == [OTHER]
    assert values(trail.searched_values(1e12)) == [OTHER]


def test_a_value_that_comes_back_is_known_once() -> None:
    trail = ValueHistory()
    for at, value in enumerate([TOKEN, OTHER, TOKEN]):
        trail.add("x", SourceValue(value), ONE, at)
    assert values(trail.searched_values(2)) == [OTHER, TOKEN]
    assert values(trail.searched_values(1e12)) == [TOKEN]


def test_what_is_alive_is_the_same_until_something_changes() -> None:
    """So it can be the key of what is built of it."""
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    assert trail.searched_values(0) == trail.searched_values(5)
    before = trail.searched_values(5)
    trail.add("x", SourceValue(OTHER), ONE, 6)
    assert trail.searched_values(6) != before


def test_the_value_of_another_owner_stays_in_use() -> None:
    """A policy that is being replaced may ask its source once more; the new one must not suffer."""
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    trail.add("x", SourceValue(OTHER), TWO, 0)
    assert values(trail.searched_values(1e12)) == [TOKEN, OTHER]
    trail.retire(ONE, 0)
    assert values(trail.searched_values(REPLACED_VALUE_LIFETIME)) == [OTHER]


def test_only_the_newest_are_kept_and_never_without_those_in_use() -> None:
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    for number in range(50):
        trail.add("x", SourceValue(b"token-%08d" % number), TWO, number)
    found = values(trail.searched_values(50))
    assert len(found) == MAX_VALUES
    assert TOKEN in found
    assert b"token-00000049" in found


def test_a_short_value_ends_the_one_before_and_is_not_searched_for() -> None:
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    trail.add("x", SourceValue(b"short"), ONE, 0)
    assert values(trail.searched_values(0)) == [TOKEN]
    assert trail.searched_values(REPLACED_VALUE_LIFETIME) == ()


def test_shows_no_value() -> None:
    assert "tok_" not in repr(KnownValue("x", SourceValue(TOKEN), ONE))


def test_a_value_that_is_carried_stays_until_it_is_let_go() -> None:
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    (carried,) = trail.in_use()
    carried.carried += 1
    trail.add("x", SourceValue(OTHER), ONE, 1)
    assert trail.is_carried
    assert values(trail.searched_values(1e12)) == [TOKEN, OTHER]
    carried.carried -= 1
    assert values(trail.searched_values(1e12)) == [OTHER]
    assert not any(known.carried for known in trail.searched_values(1e12))


def test_what_was_replaced_is_not_in_use() -> None:
    """Else there would be no end to it where exchanges overlap."""
    trail = ValueHistory()
    trail.add("x", SourceValue(TOKEN), ONE, 0)
    trail.add("x", SourceValue(OTHER), ONE, 1)
    assert values(tuple(trail.in_use())) == [OTHER]
    trail.retire(ONE, 2)
    assert trail.in_use() == []
