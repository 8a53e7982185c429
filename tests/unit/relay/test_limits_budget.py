"""What sandboxes may hold: shares that leave something for the next one, and nothing that is lost."""

from __future__ import annotations

from egress.relay.limits import MAX_WIRES, MIN_WINDOW_BYTES, RelayBudget, RelayBudgets

MIB = 1024 * 1024


def taken(account: RelayBudget, what: str, tries: int = 500) -> int:
    return sum(account.connect() if what == "connections" else account.begin() for _ in range(tries))


def test_one_sandbox_takes_half_and_each_further_one_half_of_the_rest() -> None:
    budgets = RelayBudgets(exchanges=64)
    assert [taken(budgets.account(name), "exchanges") for name in ("one", "two", "three")] == [32, 16, 8]


def test_the_relays_of_a_sandbox_share_what_it_has() -> None:
    budgets = RelayBudgets(connections=1000, of_sandbox=150)
    first, second, third = (budgets.account("box") for _ in range(3))
    assert [taken(each, "connections") for each in (first, second, third)] == [MAX_WIRES, 50, 0]
    assert taken(budgets.account("other"), "connections") == MAX_WIRES
    first.disconnect()
    assert [taken(each, "connections") for each in (third, second)] == [1, 0]


def test_what_is_given_back_can_be_taken_again() -> None:
    account = RelayBudgets(exchanges=2).account("box")
    for _ in range(10):
        assert account.begin()
        assert not account.begin()
        account.end()


def test_a_relay_that_ends_gives_all_back_once_and_takes_nothing_more() -> None:
    budgets = RelayBudgets(exchanges=8, window=16 * MIB)
    account, other = budgets.account("box"), budgets.account("box")
    assert account.connect() and account.begin() and account.window(MIB) == MIB  # noqa: PT018
    account.close()
    account.close()
    account.end()
    account.disconnect()
    whole = budgets.all
    assert (whole.connections, whole.exchanges, whole.window) == (0, 0, 0)
    assert [account.begin(), account.connect()] == [False, False]
    assert budgets.sandboxes == {"box"}
    other.close()
    assert budgets.sandboxes == set()


def test_windows_shrink_with_what_is_taken_and_their_sum_is_bounded() -> None:
    budgets = RelayBudgets(window=64 * MIB)
    given = [budgets.account("box").window(2 * MIB) for _ in range(512)]
    assert given[0] == 2 * MIB
    assert given == sorted(given, reverse=True)
    assert given[-1] == MIN_WINDOW_BYTES
    assert sum(given) <= 32 * MIB + 512 * MIN_WINDOW_BYTES
    assert budgets.account("other").window(2 * MIB) > MIN_WINDOW_BYTES
