"""The audit log: what was tried, what became of it, and proof that nobody changed it since.

`Sink` writes, `verify` checks. It must never hold a secret, a query string, a body or a header value,
and must not know an event loop, a socket or the rules.
"""

from egress.audit.clock import Clock
from egress.audit.lines import EVENTS
from egress.audit.sink import Sink
from egress.audit.values import (
    AuditStoppedError,
    Durations,
    Facts,
    Opening,
    Refusal,
    Ticket,
    Tunnel,
    Way,
)
from egress.audit.verify import Fault, Verified, verify

__all__ = [
    "EVENTS",
    "AuditStoppedError",
    "Clock",
    "Durations",
    "Facts",
    "Fault",
    "Opening",
    "Refusal",
    "Sink",
    "Ticket",
    "Tunnel",
    "Verified",
    "Way",
    "verify",
]
