"""What sandboxes may hold: shares that leave something for the next one, and nothing that is lost."""

from __future__ import annotations

import pytest

from egress.shares.pool import (
    DEFAULT_CAPACITIES,
    MAX_BUFFER_BYTES,
    MEBIBYTE,
    MIN_BUFFER_BYTES,
    Capacity,
    Resource,
    ShareAccount,
    SharePool,
)

LEAST = 65_535


def taken(account: ShareAccount, resource: Resource, tries: int = 500) -> int:
    return sum(account.take(resource) for _ in range(tries))


def test_one_sandbox_takes_half_and_each_further_one_half_of_the_rest() -> None:
    pool = SharePool(exchanges=Capacity(64, 64))
    names = ("one", "two", "three")
    assert [taken(pool.account(name), Resource.EXCHANGES) for name in names] == [32, 16, 8]


def test_the_accounts_of_a_sandbox_share_what_it_has() -> None:
    pool = SharePool(upstreams=Capacity(1000, 150))
    first, second, third = (pool.account("box") for _ in range(3))
    assert taken(first, Resource.UPSTREAMS, 100) == 100
    assert [taken(each, Resource.UPSTREAMS) for each in (second, third)] == [50, 0]
    assert taken(pool.account("other"), Resource.UPSTREAMS, 100) == 100
    first.give(Resource.UPSTREAMS)
    assert [taken(each, Resource.UPSTREAMS) for each in (third, second)] == [1, 0]
    assert pool.count("box", Resource.UPSTREAMS) == 150


def test_the_total_is_bounded_over_all_sandboxes() -> None:
    pool = SharePool(clients=Capacity(6, 5))
    accounts = [pool.account(name) for name in ("a", "b")] * 2
    assert all(account.take(Resource.CLIENTS) for account in accounts)
    assert not accounts[0].take(Resource.CLIENTS), "the last ones are for others"
    assert pool.account("c").take(Resource.CLIENTS)


def test_amounts_are_taken_whole_or_not_at_all() -> None:
    account = SharePool(decoders=Capacity(100, 40)).account("box")
    assert account.take(Resource.DECODERS, 30)
    assert not account.take(Resource.DECODERS, 11)
    assert account.take(Resource.DECODERS, 10)
    account.give(Resource.DECODERS, 25)
    assert account.has(Resource.DECODERS, 25)
    assert not account.has(Resource.DECODERS, 26)
    assert account.taken[Resource.DECODERS] == 15


def test_what_is_given_back_can_be_taken_again() -> None:
    account = SharePool(exchanges=Capacity(2, 2)).account("box")
    for _ in range(10):
        assert account.take(Resource.EXCHANGES)
        assert not account.take(Resource.EXCHANGES)
        account.give(Resource.EXCHANGES)


def test_an_account_that_is_closed_gives_all_back_once_and_takes_nothing_more() -> None:
    pool = SharePool(exchanges=Capacity(8, 8), windows=Capacity(16 * MEBIBYTE, 16 * MEBIBYTE))
    account, other = pool.account("box"), pool.account("box")
    assert account.take(Resource.UPSTREAMS)
    assert account.take(Resource.EXCHANGES)
    assert account.take_part(Resource.WINDOWS, MEBIBYTE, LEAST) == MEBIBYTE
    account.close()
    account.close()
    account.give(Resource.EXCHANGES)
    assert pool.used == [0] * len(Resource)
    assert not any(account.take(resource) for resource in Resource)
    assert pool.sandboxes == {"box"}
    other.close()
    assert pool.sandboxes == set()
    assert pool.count("box", Resource.UPSTREAMS) == 0


def test_parts_shrink_with_what_is_taken_and_their_sum_is_bounded() -> None:
    pool = SharePool(windows=Capacity(64 * MEBIBYTE, 64 * MEBIBYTE))
    want = 2 * MEBIBYTE
    given = [pool.account("box").take_part(Resource.WINDOWS, want, LEAST) for _ in range(512)]
    assert given[0] == want
    assert given == sorted(given, reverse=True)
    assert given[-1] == LEAST
    assert sum(given) <= 32 * MEBIBYTE + 512 * LEAST
    assert pool.account("other").take_part(Resource.WINDOWS, want, LEAST) > LEAST


def test_a_connection_of_many_has_smaller_buffers() -> None:
    pool = SharePool()
    accounts = [pool.account("box") for _ in range(10)]
    assert pool.buffer_bytes("box") == MAX_BUFFER_BYTES
    accounts += [pool.account("box") for _ in range(2000)]
    assert pool.buffer_bytes("box") == MIN_BUFFER_BYTES
    assert pool.buffer_bytes("other") == MAX_BUFFER_BYTES
    for account in accounts[10:]:
        account.close()
    assert pool.buffer_bytes("box") == MAX_BUFFER_BYTES


@pytest.mark.parametrize("resource", list(Resource))
def test_no_sandbox_may_have_everything(resource: Resource) -> None:
    capacity = DEFAULT_CAPACITIES[resource]
    assert 0 < 2 * capacity.of_sandbox <= capacity.total
