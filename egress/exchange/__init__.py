"""One HTTP exchange as a state machine that owns the order of the steps. Pure.

Lanes speak a protocol and do the I/O; they hand heads and chunks to an `Exchange` and do what it
answers. Nothing about the order of checks, about what may leave or come back, stands in a lane.
"""

from __future__ import annotations

from egress.exchange.machine import Exchange, OrderError, Spend
from egress.exchange.record import Record
from egress.exchange.values import Answer, Cut, Deny, Destination, NeedSecrets, Request, Response, Send

__all__ = [
    "Answer",
    "Cut",
    "Deny",
    "Destination",
    "Exchange",
    "NeedSecrets",
    "OrderError",
    "Record",
    "Request",
    "Response",
    "Send",
    "Spend",
]
