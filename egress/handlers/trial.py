"""A request decided without a proxy: by the rules, and by its handler, in the steps of a real exchange."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace

from egress.exchange import (
    AllowByHandler,
    AnswerByHandler,
    AnswerRequest,
    CallHandler,
    DenyByHandler,
    DenyRequest,
    Destination,
    Exchange,
    HandlerVerdict,
    HoldBody,
    Request,
)
from egress.handlers.caller import HandlerCaller
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity


@dataclass(frozen=True, slots=True)
class HandlerTrial:
    """What came of a request that a handler was asked about."""

    handler: str
    verdict: HandlerVerdict
    code: str
    """Why the request is denied; empty if it is not."""
    status: int
    """The status of an answer; 0 if there is none."""

    @property
    def text(self) -> str:
        """The outcome in a line, for people."""
        match self.verdict:
            case DenyByHandler(reason):
                said = f"denies: {reason}" if reason else "denies"
            case AnswerByHandler(status, _, body):
                said = f"answers {status} with {len(body)} bytes"
            case AllowByHandler() as allow:
                said = f"changes {', '.join(_changed(allow))}" if allow.is_change else "allows it"
            case fault:
                said = f"failed ({fault.kind})"
        is_own = self.code in ("", "handler.denied", "handler.failed")
        return said if is_own else f"{said}, which is denied: {self.code}"


async def try_handler(
    policy: Policy, identity: Identity, head: Head, now: int, body: bytes, caller: HandlerCaller
) -> HandlerTrial | None:
    """Ask the handler of a request; None if the request has none, or the rules deny it before."""
    loaded = replace(policy, outbound=caller.outbound)
    exchange = Exchange(loaded, identity, Destination(head.scheme, head.host, head.port))
    authority = Destination(head.scheme, head.host, head.port).authority
    headers = tuple(field for field in head.headers if field[0] not in ("host", "content-length"))
    upgrade = ("websocket",) if head.websocket else ()
    request = Request(head.method, head.target, (("host", authority), *headers), upgrade=upgrade)
    step = exchange.begin(request, now)
    if isinstance(step, HoldBody) and body:
        step = exchange.inspect(body)
    if isinstance(step, HoldBody):
        step = exchange.inspect_end()
    if not isinstance(step, CallHandler):
        return None
    started = caller.start(step.call, body if step.call.reads_body else b"")
    verdict = await started if isinstance(started, Awaitable) else started
    after = exchange.handled(verdict, body, 0)
    code = after.code if isinstance(after, DenyRequest) else ""
    status = after.response.status if isinstance(after, AnswerRequest) else 0
    return HandlerTrial(step.call.use.name, verdict, code, status)


def _changed(allow: AllowByHandler) -> list[str]:
    """Name what is changed."""
    names = [f"{name} header" for name, _ in allow.set_headers]
    names += [f"{name} header (removed)" for name in sorted(allow.removed)]
    if allow.method is not None:
        names.insert(0, f"the method to {allow.method}")
    if allow.target is not None:
        names.insert(0, f"the target to {allow.target}")
    if allow.body is not None:
        names.append(f"the body to {len(allow.body)} bytes")
    return names
