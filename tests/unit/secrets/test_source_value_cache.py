"""When a value of a source is good, due, revoked."""

from __future__ import annotations

import pytest

from egress.errors import UnreadableError
from egress.secrets.source_value import CacheEntry, SourceValue, ValueLifetime
from tests.unit.secrets.secret_samples import OTHER, TOKEN


class Fixed:
    """A source whose values live ten seconds."""

    def __init__(self, *, mints: bool) -> None:
        self._mints = mints

    @property
    def mints(self) -> bool:
        return self._mints

    def fetch(self) -> SourceValue:
        raise NotImplementedError

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        return ValueLifetime(8, 10) if ttl is None else ValueLifetime(0.8 * ttl, ttl)

    def stop(self) -> None:
        raise NotImplementedError


def held(*, mints: bool = False) -> CacheEntry:
    return CacheEntry(Fixed(mints=mints))


def test_nothing_is_good_before_the_first_value() -> None:
    empty = held()
    assert empty.secret_if_good("x", None, 0) is None
    assert empty.is_due(None, 0)


def test_a_value_is_good_then_due_then_over() -> None:
    one = held()
    assert one.store(SourceValue(TOKEN), 100)
    secret = one.secret_if_good("x", None, 107.9)
    assert secret is not None
    assert secret.reveal() == TOKEN
    assert not one.is_due(None, 107.9)
    assert one.is_due(None, 108)
    assert one.secret_if_good("x", None, 109.9) is secret
    assert one.secret_if_good("x", None, 110) is None


def test_each_secret_of_a_source_has_its_own_ttl() -> None:
    one = held()
    one.store(SourceValue(TOKEN), 100)
    assert one.secret_if_good("x", 5, 106) is None
    assert one.secret_if_good("y", 20, 106) is not None


def test_a_confirmed_value_lives_on_as_the_same() -> None:
    one = held()
    one.store(SourceValue(TOKEN), 100)
    before = one.secret_if_good("x", None, 100)
    assert not one.store(SourceValue(TOKEN), 108)
    assert one.secret_if_good("x", None, 117) is before


def test_a_failure_does_not_prolong_and_does_not_shorten() -> None:
    one = held()
    one.store(SourceValue(TOKEN), 100)
    assert one.fail(UnreadableError("no"), 110)
    assert not one.fail(UnreadableError("no"), 110)
    assert one.fail(UnreadableError("other"), 110)
    assert one.secret_if_good("x", None, 109) is not None
    assert not one.is_due(None, 109)
    assert one.is_due(None, 110)
    assert one.secret_if_good("x", None, 110) is None


def test_no_value_is_good_while_a_name_is_revoked() -> None:
    """Neither the value that was there, nor another one, nor one for another name of the same source."""
    one = held()
    one.store(SourceValue(TOKEN), 100)
    assert one.revoke("x")
    for value in (TOKEN, OTHER):
        one.store(SourceValue(value), 101)
        assert one.secret_if_good("x", None, 101) is None
        assert one.secret_if_good("y", None, 101) is None
    assert one.value is not None, "it is still searched for"


def test_what_was_never_fetched_can_be_revoked() -> None:
    one = held()
    one.revoke("x")
    one.store(SourceValue(TOKEN), 100)
    assert one.secret_if_good("x", None, 100) is None


def test_a_source_is_revoked_until_each_name_that_revoked_it_is_restored() -> None:
    one = held()
    assert one.revoke("x")
    assert not one.revoke("y"), "it is news once"
    one.restore("x")
    one.restore("z")
    one.store(SourceValue(TOKEN), 100)
    assert (one.is_revoked, one.secret_if_good("x", None, 100)) == (True, None)
    one.restore("y")
    assert not one.is_revoked


def test_after_a_restore_the_source_is_asked_first() -> None:
    """A value from before the revocation may be what made it necessary."""
    one = held()
    one.store(SourceValue(TOKEN), 100)
    one.revoke("x")
    one.fail(UnreadableError("no"), 999)
    one.restore("x")
    assert one.secret_if_good("x", None, 101) is None
    assert one.is_due(None, 101)
    one.store(SourceValue(TOKEN), 101)
    assert one.secret_if_good("x", None, 101) is not None


@pytest.mark.parametrize("mints", [True, False])
def test_a_source_that_mints_is_not_asked_while_it_is_revoked(mints: bool) -> None:
    one = held(mints=mints)
    one.revoke("x")
    assert one.is_due(None, 100) is not mints


def test_knows_a_short_value() -> None:
    one = held()
    one.store(SourceValue(b"short"), 100)
    assert one.is_short
    one.store(SourceValue(TOKEN), 100)
    assert not one.is_short


def test_tells_when_its_value_was_confirmed() -> None:
    assert held().confirmed is None
    one = held()
    one.store(SourceValue(TOKEN), 100)
    one.store(SourceValue(TOKEN), 105)
    assert one.confirmed == 105
    one.revoke("x")
    assert one.confirmed is None
