"""The states of budgets over the control socket: how much of each is spent and reserved, and by whom."""

from __future__ import annotations

from egress.errors import EgressError
from egress.proxy.control.sandbox_views import moment
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine


class BudgetStates:
    """The routes for budgets."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine

    def routes(self) -> Routes:
        return {("GET", "/budgets"): self._states, ("POST", "/budgets/accept-loss"): self._accept}

    async def _states(self, _: Body) -> ControlReply:
        engine = self._engine
        policy, ledger, now = engine.policy, engine.ledger, engine.clock.now()
        prices = policy.prices
        return ControlReply(
            200,
            {
                "budgets": [
                    {
                        "budget": state.budget,
                        "scope": state.scope,
                        "unit": state.limit.unit,
                        "window": state.limit.window,
                        "limit": state.limit.amount,
                        "spent": state.spent,
                        "reserved": state.reserved,
                        "reopens": state.reopens,
                    }
                    for state in ledger.states(policy.budgets.values(), now)
                ],
                "lost": None if ledger.lost_at is None else moment(ledger.lost_at),
                "prices": {"date": prices.date, "digest": prices.digest, "models": len(prices.prices)},
            },
        )

    async def _accept(self, _: Body) -> ControlReply:
        """Begin with empty accounts after the journal was lost."""
        try:
            was_lost = self._engine.ledger.accept_loss(self._engine.clock.now())
        except EgressError as error:
            return ControlReply(503, {"error": error.message, "hint": error.hint})
        return ControlReply(200, {"accepted": was_lost})
