"""An HTTP exchange as a state machine that owns the order of the steps. Pure.

Lanes speak a protocol and do the I/O; they hand heads and chunks to an `Exchange` and do what it
answers. Nothing about the order of checks, about what may leave or come back, stands in a lane.
"""

from __future__ import annotations

from egress.exchange.denied_exchange import DeniedExchange
from egress.exchange.exchange import Exchange
from egress.exchange.handler_call import (
    AllowByHandler,
    AnswerByHandler,
    DenyByHandler,
    HandlerCall,
    HandlerFault,
    HandlerVerdict,
)
from egress.exchange.messages import (
    AnswerHead,
    AnswerRequest,
    CallHandler,
    CutExchange,
    DenyRequest,
    Destination,
    ExchangeRecord,
    HoldBody,
    NeedSecrets,
    Request,
    Response,
    SendRequest,
)
from egress.exchange.request_steps import OrderError, RequestStep, Spend

__all__ = [
    "AllowByHandler",
    "AnswerByHandler",
    "AnswerHead",
    "AnswerRequest",
    "CallHandler",
    "CutExchange",
    "DeniedExchange",
    "DenyByHandler",
    "DenyRequest",
    "Destination",
    "Exchange",
    "ExchangeRecord",
    "HandlerCall",
    "HandlerFault",
    "HandlerVerdict",
    "HoldBody",
    "NeedSecrets",
    "OrderError",
    "Request",
    "RequestStep",
    "Response",
    "SendRequest",
    "Spend",
]
