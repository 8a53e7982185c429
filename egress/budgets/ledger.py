"""The ledger of budgets: reserve before a call, settle after it.

Theory of operation. An account belongs to a budget and a scope, such as a sandbox. It holds the amounts that
were spent, in buckets of a sixtieth of an hour and of a day, and the amounts that running calls have
reserved. A call passes if, in every window of every budget, spent and reserved amounts leave room for its
own. So calls that run at the same time cannot share one rest. Settling replaces a reservation by the amount
that was spent.

A bucket counts until its last second has left the window: no window ever holds more than its limit, however
it is laid. Accounts know nothing of limits, so a reload of the rules changes no amount.

Each change is told to the journal before it holds. Replayed from a journal, calls that were never settled
count as spent in full: they were on their way when the proxy ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetLimit, BudgetSpec, BudgetUnit
from egress.types import value_class

BUCKETS_PER_WINDOW: Final = 60
RESERVED_WAIT: Final = 10
"""Seconds after which a call may try again that only running calls leave no room for."""
NEVER_REOPENS: Final = -1
"""The wait of a call for which there is no room even in an empty window."""
MAX_AMOUNT: Final = 10**18
"""The largest amount that is counted; larger ones count as this."""

AccountKey = tuple[str, str]
"""The name of a budget, and that of the sandbox, profile or secret whose account it is."""


@value_class
class Amounts:
    """The cost of a call, in both units."""

    micro_cents: int = 0
    tokens: int = 0

    def of(self, unit: BudgetUnit) -> int:
        return self.micro_cents if unit == "usd" else self.tokens


NO_AMOUNTS: Final = Amounts()


@value_class
class Shortage:
    """A call for which a budget has no room."""

    budget: str
    wait: int
    """Seconds until there is room; `NEVER_REOPENS` where waiting does not help."""


@value_class
class JournalEntry:
    """A change of the ledger, in the order in which it came."""

    kind: Literal["reserve", "settle", "account", "drop", "lost", "accepted"]
    call: int = 0
    accounts: tuple[AccountKey, ...] = ()
    amounts: Amounts = NO_AMOUNTS
    at: int = 0
    buckets: tuple[tuple[BudgetUnit, int, tuple[tuple[int, int], ...]], ...] = ()
    """Of an account: unit and window, with the amount of each bucket."""


class _Window:
    """The amounts that were spent in one unit within one window."""

    __slots__ = ("buckets", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.buckets: dict[int, int] = {}

    def add(self, amount: int, now: int) -> None:
        if not amount:
            return
        bucket = now // self._width if self.window else 0
        # A clock that was put back adds to the newest bucket: an older one would count for less time.
        bucket = max(bucket, max(self.buckets, default=bucket))
        self.buckets[bucket] = min(MAX_AMOUNT, self.buckets.get(bucket, 0) + amount)

    def spent(self, now: int) -> int:
        for bucket in [each for each in self.buckets if self.ends(each) <= now]:
            del self.buckets[bucket]
        return sum(self.buckets.values())

    def wait(self, excess: int, now: int) -> int:
        """Return the seconds until so much less counts; `NEVER_REOPENS` if it always does."""
        for bucket in sorted(self.buckets):
            excess -= self.buckets[bucket]
            if excess <= 0:
                return max(1, self.ends(bucket) - now) if self.window else NEVER_REOPENS
        return NEVER_REOPENS

    def ends(self, bucket: int) -> int:
        """Return the moment from which a bucket does not count any more."""
        return (bucket + 1) * self._width + self.window if self.window else MAX_AMOUNT

    @property
    def _width(self) -> int:
        return self.window // BUCKETS_PER_WINDOW


_UNITS: Final[tuple[BudgetUnit, ...]] = ("usd", "tokens")
_WINDOWS: Final = (HOUR, DAY, TOTAL)


class _Account:
    """What was spent and is reserved under one key."""

    __slots__ = ("reserved", "windows")

    def __init__(self) -> None:
        self.windows = {(unit, window): _Window(window) for unit in _UNITS for window in _WINDOWS}
        self.reserved: dict[BudgetUnit, int] = dict.fromkeys(_UNITS, 0)

    def spend(self, amounts: Amounts, now: int) -> None:
        for (unit, _), window in self.windows.items():
            window.add(min(MAX_AMOUNT, max(0, amounts.of(unit))), now)

    @property
    def lasts(self) -> bool:
        """Something counts for as long as the account lives."""
        return any(self.windows[unit, TOTAL].buckets for unit in _UNITS)

    def hold(self, amounts: Amounts, sign: int) -> None:
        for unit in _UNITS:
            self.reserved[unit] += sign * amounts.of(unit)


@value_class
class AccountState:
    """How one limit of an account stands, for people."""

    budget: str
    scope: str
    limit: BudgetLimit
    spent: int
    reserved: int
    reopens: int = 0
    """Seconds until something of it is free again; 0 where nothing has to be."""


@dataclass(slots=True)
class Ledger:
    """The accounts of all budgets. The journal is told of a change before it holds."""

    journal: Callable[[JournalEntry], None] = field(default=lambda _: None)
    _accounts: dict[AccountKey, _Account] = field(default_factory=dict)
    _calls: dict[int, tuple[tuple[AccountKey, ...], Amounts]] = field(default_factory=dict)
    _last_call: int = 0
    lost_at: int | None = None
    """When the journal was found to be lost: each window that reaches back to then counts as full."""

    # A call

    def room(self, claims: Iterable[tuple[BudgetSpec, str]], unit: BudgetUnit, now: int) -> int | None:
        """Return what a call of these budgets and scopes may cost; None where nothing limits it."""
        rooms = [
            limit.amount - self._used((spec.name, scope), limit, now)
            for spec, scope in claims
            for limit in spec.limits
            if limit.unit == unit
        ]
        return max(0, min(rooms)) if rooms else None

    def shortage(
        self, claims: Iterable[tuple[BudgetSpec, str]], amounts: Amounts, now: int
    ) -> Shortage | None:
        """Return the budget that has no room for a call; of several, the one with the longest wait."""
        found = [
            Shortage(spec.name, wait)
            for spec, scope in claims
            for limit in spec.limits
            if (wait := self._wait((spec.name, scope), limit, amounts.of(limit.unit), now))
        ]
        return max(found, key=lambda each: (each.wait == NEVER_REOPENS, each.wait), default=None)

    def reserve(self, claims: Sequence[tuple[BudgetSpec, str]], amounts: Amounts, now: int) -> int | Shortage:
        """Reserve the amounts in every account that a call counts for; return the number of the call."""
        short = self.shortage(claims, amounts, now)
        if short is not None:
            return short
        keys = tuple(dict.fromkeys((spec.name, scope) for spec, scope in claims))
        call = self._last_call + 1
        self._tell(JournalEntry("reserve", call, keys, amounts, now))
        return call

    def settle(self, call: int, amounts: Amounts, now: int) -> None:
        """Replace the reservation of a call by what it has cost; a call is settled once."""
        if call in self._calls:
            self._tell(JournalEntry("settle", call, (), amounts, now))

    def _tell(self, entry: JournalEntry) -> None:
        self.journal(entry)
        self.apply(entry)

    # What is left

    def _used(self, key: AccountKey, limit: BudgetLimit, now: int) -> int:
        if self._is_lost(limit, now):
            return limit.amount
        account = self._accounts.get(key)
        if account is None:
            return 0
        return account.windows[limit.unit, limit.window].spent(now) + account.reserved[limit.unit]

    def _is_lost(self, limit: BudgetLimit, now: int) -> bool:
        lost = self.lost_at
        return lost is not None and (not limit.window or now < lost + limit.window)

    def _wait(self, key: AccountKey, limit: BudgetLimit, amount: int, now: int) -> int:
        """Return how long this limit has no room for the amount; 0 if it has."""
        if amount > limit.amount:
            return NEVER_REOPENS
        excess = self._used(key, limit, now) + amount - limit.amount
        # An account that is full takes no call at all, not even one that seems to cost nothing.
        if excess < 0 or (excess == 0 and amount):
            return 0
        if self._is_lost(limit, now):
            return max(1, (self.lost_at or 0) + limit.window - now) if limit.window else NEVER_REOPENS
        account = self._accounts.get(key)
        if account is None:
            return NEVER_REOPENS
        if excess <= account.reserved[limit.unit] and account.reserved[limit.unit]:
            return RESERVED_WAIT
        over = max(1, excess - account.reserved[limit.unit])
        return account.windows[limit.unit, limit.window].wait(over, now)

    def share_left(self, claims: Iterable[tuple[BudgetSpec, str]], now: int) -> tuple[str, int] | None:
        """Return the budget with the smallest share left, and that share in percent."""
        shares = [
            (
                max(0, limit.amount - self._used((spec.name, scope), limit, now)) * 100 // limit.amount,
                spec.name,
            )
            for spec, scope in claims
            for limit in spec.limits
        ]
        if not shares:
            return None
        share, name = min(shares)
        return name, share

    def warned(self, claims: Iterable[tuple[BudgetSpec, str]], added: Amounts, now: int) -> list[str]:
        """Return the warnings that these amounts, which were just spent, have passed."""
        found: dict[str, None] = {}
        for spec, scope in claims:
            account = self._accounts.get((spec.name, scope))
            if account is None:
                continue
            for limit in spec.limits:
                after = account.windows[limit.unit, limit.window].spent(now) * 100
                before = after - added.of(limit.unit) * 100
                for share in spec.warnings:
                    if before < share * limit.amount <= after:
                        found[f"{spec.name} {share}%"] = None
        return list(found)

    def states(self, specs: Iterable[BudgetSpec], now: int) -> Iterator[AccountState]:
        """Yield how each account of these budgets stands."""
        for spec in specs:
            scopes = sorted(scope for name, scope in self._accounts if name == spec.name)
            for scope in scopes:
                for limit in spec.limits:
                    account = self._accounts[spec.name, scope]
                    reserved = account.reserved[limit.unit]
                    used = self._used((spec.name, scope), limit, now)
                    wait = self._wait((spec.name, scope), limit, 0, now)
                    spent = used if self._is_lost(limit, now) else used - reserved
                    yield AccountState(spec.name, scope, limit, spent, reserved, max(0, wait))

    def forget(self, sandbox: str) -> None:
        """Begin the life of a sandbox anew: what it spent in all counts no more, its windows stay."""
        keys = tuple(key for key, account in self._accounts.items() if key[1] == sandbox and account.lasts)
        if keys:
            self._tell(JournalEntry("drop", accounts=keys))

    def accept_loss(self, now: int) -> bool:
        """Count from empty accounts after the journal was lost; return whether it was."""
        if self.lost_at is None:
            return False
        self._tell(JournalEntry("accepted", at=now))
        return True

    # The journal

    def apply(self, entry: JournalEntry) -> None:
        """Take a change over from the journal."""
        if entry.kind == "reserve":
            for key in entry.accounts:
                self._account(key).hold(entry.amounts, 1)
            self._calls[entry.call] = (entry.accounts, entry.amounts)
            self._last_call = max(self._last_call, entry.call)
        elif entry.kind == "settle":
            keys, held = self._calls.pop(entry.call, ((), NO_AMOUNTS))
            for key in keys:
                self._account(key).hold(held, -1)
                self._account(key).spend(entry.amounts, entry.at)
        elif entry.kind == "account":
            for unit, window, buckets in entry.buckets:
                self._account(entry.accounts[0]).windows[unit, window].buckets = dict(buckets)
        elif entry.kind == "drop":
            for key in entry.accounts:
                for unit in _UNITS:
                    self._account(key).windows[unit, TOTAL].buckets.clear()
        else:
            self.lost_at = entry.at if entry.kind == "lost" else None

    def charge_unsettled(self, now: int) -> None:
        """Charge in full the calls of a journal that nobody settled."""
        for call, (_, amounts) in tuple(self._calls.items()):
            self.apply(JournalEntry("settle", call, (), amounts, now))

    def snapshot(self, now: int) -> Iterator[JournalEntry]:
        """Yield entries that make a ledger like this one; an account without effect is left out."""
        if self.lost_at is not None:
            yield JournalEntry("lost", at=self.lost_at)
        for key, account in self._accounts.items():
            buckets = tuple(
                (unit, window.window, tuple(window.buckets.items()))
                for (unit, _), window in account.windows.items()
                if window.spent(now)
            )
            if buckets:
                yield JournalEntry("account", accounts=(key,), buckets=buckets)
        for call, (keys, amounts) in self._calls.items():
            yield JournalEntry("reserve", call, keys, amounts, now)

    def _account(self, key: AccountKey) -> _Account:
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account()
        return account
