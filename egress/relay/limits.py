"""Limits of relays: budgets of sandboxes, bounds on time and memory, and the stall timer. Pure.

The process has one `RelayBudgets`; a `BudgetUse` counts the use of a sandbox, a `RelayBudget` that of a
relay. Three resources are counted, because the process has only so many:

    connections     upstream connections: each is a descriptor
    exchanges       running requests: each is a slot of the audit
    window          bytes that HTTP/2 clients may send before they are passed on

A sandbox gets at most as much as is still free of each: alone it can take half of everything, a second one
half of the rest, and a late one still finds some. A relay that ends gives all back at once, in any state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.relay.exchange_stream import ExchangeStream

MAX_WIRES: Final = 100
"""Upstream connections of a client connection: as many as its HTTP/2 streams."""
MIN_WINDOW_BYTES: Final = 65_535
"""The window that HTTP/2 gives every connection from the start."""
_WINDOW_SHARES: Final = 16


class BudgetUse:
    """Resources in use by a sandbox, or by all sandboxes together."""

    __slots__ = ("accounts", "connections", "exchanges", "window")

    def __init__(self) -> None:
        self.accounts = 0
        self.connections = 0
        self.exchanges = 0
        self.window = 0


class RelayBudgets:
    """The resources of the process, and the use of each sandbox."""

    __slots__ = ("_shares", "all", "connections", "exchanges", "of_sandbox", "window")

    def __init__(
        self,
        connections: int = 32_768,
        of_sandbox: int = 2048,
        exchanges: int = 3072,
        window: int = 128 * 1024 * 1024,
    ) -> None:
        """`connections` of all sandboxes, of which one may have as many as `of_sandbox` says.

        `exchanges` stays below the slots of the audit: each keeps its slot for a moment after its end.
        """
        self.connections = connections
        self.of_sandbox = of_sandbox
        self.exchanges = exchanges
        self.window = window
        self.all = BudgetUse()
        self._shares: dict[str, BudgetUse] = {}

    @property
    def sandboxes(self) -> frozenset[str]:
        """The sandboxes with a relay, which may take resources at once."""
        return frozenset(self._shares)

    def account(self, sandbox: str) -> RelayBudget:
        """Open the account of a new relay of this sandbox."""
        return RelayBudget(self, sandbox, self._shares.setdefault(sandbox, BudgetUse()))

    def forget(self, sandbox: str) -> None:
        """The last account of this sandbox is closed: names must not pile up."""
        self._shares.pop(sandbox, None)


class RelayBudget:
    """The share of a relay."""

    __slots__ = ("_budgets", "_connections", "_exchanges", "_is_closed", "_sandbox", "_share", "_window")

    def __init__(self, budgets: RelayBudgets, sandbox: str, share: BudgetUse) -> None:
        self._budgets = budgets
        self._sandbox = sandbox
        self._share = share
        self._connections = 0
        self._exchanges = 0
        self._window = 0
        self._is_closed = False
        share.accounts += 1

    @property
    def may_connect(self) -> bool:
        """Tell whether an upstream connection is left."""
        if self._is_closed or self._connections >= MAX_WIRES:
            return False
        budgets = self._budgets
        most = min(budgets.of_sandbox, budgets.connections - budgets.all.connections)
        return self._share.connections < most

    def connect(self) -> bool:
        """Take an upstream connection; return whether one was left."""
        if not self.may_connect:
            return False
        self._connections += 1
        self._share.connections += 1
        self._budgets.all.connections += 1
        return True

    def disconnect(self) -> None:
        """Give one back."""
        if not self._is_closed:
            self._connections -= 1
            self._share.connections -= 1
            self._budgets.all.connections -= 1

    def begin(self) -> bool:
        """Take an exchange; return whether one was left."""
        budgets, share = self._budgets, self._share
        if self._is_closed or share.exchanges >= budgets.exchanges - budgets.all.exchanges:
            return False
        self._exchanges += 1
        share.exchanges += 1
        budgets.all.exchanges += 1
        return True

    def end(self) -> None:
        """Give one back."""
        if not self._is_closed:
            self._exchanges -= 1
            self._share.exchanges -= 1
            self._budgets.all.exchanges -= 1

    def window(self, want: int) -> int:
        """Return the window to open, up to `want`; it is given back when the relay closes."""
        budgets, share = self._budgets, self._share
        # A part of the rest is given each time: a late connection gets little, but never zero.
        spare = budgets.window - budgets.all.window - share.window
        given = max(min(want, spare // _WINDOW_SHARES), MIN_WINDOW_BYTES)
        self._window += given
        share.window += given
        budgets.all.window += given
        return given

    def close(self) -> None:
        """Give all resources back, and take no more."""
        if self._is_closed:
            return
        self._is_closed = True
        share = self._share
        for each in (share, self._budgets.all):
            each.connections -= self._connections
            each.exchanges -= self._exchanges
            each.window -= self._window
        share.accounts -= 1
        if not share.accounts:
            self._budgets.forget(self._sandbox)


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds on time, in seconds, on memory, and on what is taken for complete."""

    head: float = 15.0
    """From the first byte of a request head to its last."""
    keep_alive: float = 120.0
    """Between two requests of a client connection."""
    request_body: float = 60.0
    """Without a byte of a request body that is still to come."""
    response_head: float = 300.0
    """From a request that is complete to the head of its response."""
    silence: float = 900.0
    """Without a byte in either direction while a response, or a WebSocket, is under way."""
    linger: float = 2.0
    """For a client to read a refusal before the connection closes."""
    upstream_wait: float = 30.0
    """Waiting of an exchange for a connection while its sandbox has used up its budget."""
    upstream_idle: float = 30.0
    """Keeping an idle upstream connection for another exchange."""
    discarded: int = 64 * 1024
    """Bytes of a refused request's body that are read and dropped."""
    strict_tls_end: bool = False
    """A body that runs to the end of its connection counts as cut if TLS ends without close_notify."""
    budgets: RelayBudgets | None = None
    """The budgets shared by the relays of all sandboxes; None gives the relay its own."""


# An exchange has no clock, so its progress is told by a counter.
class StallTimer:
    """Measures for how long a counter has stood still."""

    def __init__(self, now: float) -> None:
        self._count = -1
        self._since = now

    def restart(self, now: float) -> None:
        """Restart the timer: the exchange has made progress."""
        self._since = now

    def quiet_seconds(self, count: int, now: float) -> float:
        """Return for how many seconds the count has been this one."""
        if count != self._count:
            self._count, self._since = count, now
        return now - self._since

    def abort_if_stalled(
        self, stream: ExchangeStream, now: float, limits: RelayLimits, *, held: bool
    ) -> None:
        """End an exchange that has stood still for too long; `held`: we hold the client back."""
        quiet = self.quiet_seconds(stream.progress, now)
        if stream.is_answered:
            if quiet > limits.silence:
                stream.abort("upstream.timeout")
        elif stream.waits_for_client and not held:
            if quiet > limits.request_body:
                stream.abort("request.timeout")
        elif quiet > limits.response_head:
            stream.abort("upstream.timeout")
