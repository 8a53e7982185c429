"""The audit log: what was tried, what became of it, and proof that nobody changed it since.

`Sink` writes, `verify` checks. It must never hold a secret, a query string, a body or a header value,
and must not know an event loop, a socket or the rules.
"""

from egress.audit.clock import AuditClock
from egress.audit.facts import (
    AuditStoppedError,
    ConnectionFacts,
    Durations,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    Ticket,
    TunnelFacts,
)
from egress.audit.lines import EVENTS
from egress.audit.sink import Sink
from egress.audit.verify import LogFault, Verification, verify

__all__ = [
    "EVENTS",
    "AuditClock",
    "AuditStoppedError",
    "ConnectionFacts",
    "Durations",
    "ExchangeFacts",
    "Intent",
    "LogFault",
    "RefusalFacts",
    "Sink",
    "Ticket",
    "TunnelFacts",
    "Verification",
    "verify",
]
