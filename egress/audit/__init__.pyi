# What type checkers see of `egress.audit`: each name is loaded when it is first asked for.

from egress.audit.clock import AuditClock
from egress.audit.lines import EVENTS
from egress.audit.log_opening import open_log
from egress.audit.log_verification import LogVerification, VerifiedChain, verify_log
from egress.audit.reported_facts import (
    AuditStoppedError,
    ConnectionFacts,
    Durations,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    Ticket,
    TunnelFacts,
)
from egress.audit.sink import Sink
from egress.audit.verify import LogFault, Verification

__all__ = [
    "EVENTS",
    "AuditClock",
    "AuditStoppedError",
    "ConnectionFacts",
    "Durations",
    "ExchangeFacts",
    "Intent",
    "LogFault",
    "LogVerification",
    "RefusalFacts",
    "Sink",
    "Ticket",
    "TunnelFacts",
    "Verification",
    "VerifiedChain",
    "open_log",
    "verify_log",
]
