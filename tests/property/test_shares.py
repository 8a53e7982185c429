"""The pool of resources under takes, returns and ends in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.shares.pool import Capacity, Resource, ShareAccount, SharePool

CAPACITIES = {
    "clients": Capacity(8, 4),
    "upstreams": Capacity(6, 6),
    "exchanges": Capacity(3, 2),
    "windows": Capacity(400, 200),
    "decoders": Capacity(50, 40),
    "held_bodies": Capacity(60, 30),
}
STEP = st.tuples(
    st.sampled_from(["open", "take", "give", "part", "close"]),
    st.integers(0, 20),
    st.sampled_from(list(Resource)),
    st.integers(0, 60),
)


def carried_out(steps: list[tuple[str, int, Resource, int]]) -> tuple[SharePool, list[ShareAccount]]:
    """Do these with accounts of three sandboxes; return what came of it."""
    pool = SharePool(**CAPACITIES)
    accounts: list[ShareAccount] = []
    parts: dict[Resource, int] = dict.fromkeys(Resource, 0)
    for what, which, resource, amount in steps:
        if what == "open" or not accounts:
            accounts.append(pool.account(f"box-{which % 3}"))
            continue
        account = accounts[which % len(accounts)]
        match what:
            case "take":
                before = pool.used[resource]
                has = account.has(resource, amount)
                assert account.take(resource, amount) is has
                assert pool.used[resource] == before + amount * has
            case "give":
                account.give(resource, amount)
            case "part":
                given = account.take_part(resource, amount, 1)
                parts[resource] += given
                assert 1 <= given <= max(amount, 1)
            case _:
                account.close()
        for each in Resource:
            # Parts are granted whatever there is, one at least.
            assert 0 <= pool.used[each] <= CAPACITIES[each.name.lower()].total + parts[each]
            assert pool.used[each] == sum(account.taken[each] for account in accounts)
    return pool, accounts


@given(st.lists(STEP, max_size=60), st.permutations(range(60)))
def test_any_order_of_takes_and_ends_leaves_nothing_taken(
    steps: list[tuple[str, int, Resource, int]], order: list[int]
) -> None:
    pool, accounts = carried_out(steps)
    for place in order:
        if place < len(accounts):
            accounts[place].close()
    assert pool.used == [0] * len(Resource)
    assert pool.sandboxes == set()


@given(st.lists(STEP, max_size=60))
def test_whatever_one_sandbox_has_taken_another_gets_something(
    steps: list[tuple[str, int, Resource, int]],
) -> None:
    """A sandbox may take what is free of a resource, never the last of it."""
    pool = SharePool(**CAPACITIES)
    accounts = [pool.account("box")]
    for what, which, resource, amount in steps:
        if what == "open":
            accounts.append(pool.account("box"))
        else:
            accounts[which % len(accounts)].take(resource, amount)
    stranger = pool.account("stranger")
    assert all(stranger.take(resource) for resource in Resource)
