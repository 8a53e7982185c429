"""The steps of a request that a handler is asked about: after the rules, before its secrets. Pure.

The rules come first: a handler is asked only about what they allow, and can only take away, answer, or
change the request into another one that they allow, too. Its changes are decided anew, with the policy, the
limits and the canary scan of any request. The secrets are fetched afterwards, for the request as it then is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import override

from egress.exchange.handler_call import (
    AllowByHandler,
    AnswerByHandler,
    DenyByHandler,
    HandlerCall,
    HandlerFault,
    HandlerVerdict,
    changed_head,
    credential_fields,
    holds_secret_text,
    is_sound_answer,
    reason_of_denial,
    shown_head,
)
from egress.exchange.messages import (
    AnswerRequest,
    CallHandler,
    DenyRequest,
    ExchangeStage,
    HoldBody,
    Response,
    SendRequest,
)
from egress.exchange.recorded_query import SecretCheck
from egress.exchange.request import needed_secrets
from egress.exchange.request_steps import RequestStep, RequestSteps
from egress.exchange.response import needs_search
from egress.inspect.inspector import Facts, Unreadable
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.types import Decision, HandlerUse, Head


class HandlerSteps(RequestSteps):
    """A request whose handler, if it has one, is asked before its secrets are fetched."""

    __slots__ = ("_asked", "_body_bound", "_gathered", "_is_gathering", "_is_whole", "_written_body")

    _asked: HandlerUse | None
    """The handler that is asked."""
    _body_bound: int
    """Bytes of the body that the handler reads; 0 for none."""
    _is_gathering: bool
    """The body is held for the handler alone."""
    _gathered: int
    """Bytes of the body that came."""
    _is_whole: bool
    """The end of the body has come."""
    _written_body: bytes | None
    """The body that the handler wrote."""

    def _begin_handling(self) -> None:
        self._asked = None
        self._body_bound = self._gathered = 0
        self._is_gathering = self._is_whole = False
        self._written_body = None

    @override
    def would_begin(self, policy: Policy, now: int) -> bool:
        if self._stage is ExchangeStage.HANDLER or (self._stage is ExchangeStage.HELD and self._is_gathering):
            # What the handler makes of the request is not known yet: this policy has to allow that as well.
            self._newer = policy, now
            return self._is_allowed_by(policy, now)
        return super().would_begin(policy, now)

    # The body

    @override
    def inspect(self, chunk: bytes) -> RequestStep:
        self._gathered += len(chunk)
        if not self._is_gathering:
            return super().inspect(chunk)
        self._enter(ExchangeStage.HELD)
        if self._max_up is not None and self._gathered > self._max_up:
            return self._deny("limit.request_body")
        if self._gathered > self._body_bound:
            return self._deny("body.too_large")
        self._stage = ExchangeStage.HELD
        return HoldBody()

    @override
    def inspect_end(self) -> RequestStep:
        self._is_whole = True
        if not self._is_gathering:
            return super().inspect_end()
        self._enter(ExchangeStage.HELD)
        return self._call()

    # The call

    @override
    def _go_on(self, decision: Decision) -> RequestStep:
        if self._head is None:
            return self._deny("internal")
        outbound = self.policy.outbound
        use = outbound.handler_for(self._identity, self._head.host, decision.effects)
        if use is None:
            return self._deny("handler.missing") if decision.effects.is_virtual else super()._go_on(decision)
        self._record.handler = use.name
        bound = outbound.bodies.get(use.name)
        if bound is None:
            return self._deny("handler.missing")
        self._asked, self._body_bound = use, 0 if self._head.websocket else bound
        if not self._body_bound:
            return self._call()
        if max(self._length, self._gathered) > bound:
            return self._deny("body.too_large")
        if self._is_whole:
            return self._call()
        self._is_gathering = True
        self._stage = ExchangeStage.HELD
        return HoldBody()

    def _call(self) -> RequestStep:
        use, head, decision = self._asked, self._head, self._decision
        if use is None or head is None or decision is None:
            return self._deny("internal")
        self._is_gathering = False
        effects = decision.effects
        identity, chosen = self._identity, self._record.chosen_profile
        call = HandlerCall(
            use,
            # The profile by which the rules decide, also where it was chosen while the sandbox runs.
            identity if identity.ticket or not chosen else replace(identity, profile=chosen),
            shown_head(head, credential_fields(effects.needs, effects.strips)),
            str(decision.rule or ""),
            needed_secrets(effects, self._placeholders, head),
            dict(self._found.log) if isinstance(self._found, Facts) else {},
            bool(self._body_bound),
        )
        self._stage = ExchangeStage.HANDLER
        return CallHandler(call)

    # Its verdict

    def handled(self, verdict: HandlerVerdict, body: bytes, milliseconds: int) -> RequestStep:
        """Go on with what the handler says; `body` is that of the request, if it was held whole."""
        self._enter(ExchangeStage.HANDLER)
        record = self._record
        record.handler_ms = milliseconds
        match verdict:
            case AllowByHandler():
                record.handler_verdict = "change" if verdict.is_change else "allow"
                return self._allowed_by_handler(verdict, body)
            case AnswerByHandler():
                record.handler_verdict = "answer"
                return self._answered(verdict)
            case DenyByHandler():
                record.handler_verdict = "deny"
                denied = self._deny("handler.denied")
                reason = reason_of_denial(verdict.reason)
                if reason and not holds_secret_text(self._check(), reason):
                    return DenyRequest(denied.code, reason=reason, answer=denied.answer)
                return denied
            case HandlerFault():
                record.handler_verdict = verdict.kind
                return self._deny("handler.failed")

    def _allowed_by_handler(self, allow: AllowByHandler, body: bytes) -> RequestStep:
        decision = self._decision
        if decision is None:
            return self._deny("internal")
        if decision.effects.is_virtual:
            return self._deny("handler.missing")
        if allow.is_change:
            return self._changed(decision, allow, body)
        if self._newer is not None and not self._is_allowed_by(*self._newer):
            return self._deny("access.withdrawn")
        return super()._go_on(decision)

    def _changed(self, before: Decision, allow: AllowByHandler, body: bytes) -> RequestStep:
        """Decide about the request that the handler has made of the sandbox's."""
        head, effects = self._head, before.effects
        if head is None:
            return self._deny("internal")
        changed = changed_head(head, allow, credential_fields(effects.needs, effects.strips))
        # A body that was not read whole cannot be replaced: a part of it may still be to come.
        if changed is None or (allow.body is not None and not self._is_whole):
            return self._deny("handler.refused")
        written = [text for field in allow.set_headers for text in field]
        if holds_secret_text(self._check(), "\n".join(written), allow.target, allow.method, allow.body):
            return self._deny("handler.refused")
        if self._canaries is not None and (seen := self._canaries.scan_head(changed)):
            return self._deny(self._record.note_canary(seen))
        whole = body if allow.body is None else allow.body
        found = self._found_in(changed, whole)
        decision = decide(self.policy, self._identity, changed, self._now, found)
        # From here on this is the request: also a denial is about it.
        self._decision, self._found = decision, found
        if decision.allowed and decision.effects.handlers and decision.effects.handlers[0] != self._asked:
            return self._deny("handler.refused")
        known = len(whole) if self._is_whole else max(self._length, self._gathered)
        denied = self._take_decision(changed, decision, known, effects.limits)
        if denied is not None:
            return denied
        self._written_body = allow.body
        return super()._go_on(decision)

    def _found_in(self, head: Head, body: bytes) -> Facts | Unreadable | None:
        """Return what the body of the changed request says, where rules ask for it."""
        asked = decide(self.policy, self._identity, head, self._now)
        if not asked.inspects:
            return None
        # As for the request of the sandbox, so that its answer is read by the same rules.
        reading = self._begin_reading(head, asked)
        if reading.goes_on:
            if not self._is_whole:
                return Unreadable("body.unread", "the handler has not read the body")
            reading.feed(body)
            reading.end()
        return reading.found

    def _answered(self, answer: AnswerByHandler) -> RequestStep:
        if self._newer is not None and not self._is_allowed_by(*self._newer):
            return self._deny("access.withdrawn")
        # Checked beyond the needles of this host: a handler might have any secret from anywhere.
        written = "\n".join(text for field in answer.headers for text in field)
        if not is_sound_answer(answer) or holds_secret_text(self._check(), written, answer.body):
            return self._deny("handler.refused")
        # The response goes through the steps of any response; nothing was sent for it.
        self._searches = needs_search(self._effects, self._needles)
        self._stage = ExchangeStage.SENT
        return AnswerRequest(
            Response(answer.status, "", answer.headers, has_body=bool(answer.body)), answer.body
        )

    @override
    def _sending(self, step: SendRequest) -> SendRequest:
        # A body that the rules have lowered is made of the one that the handler wrote.
        if self._written_body is None or step.body is not None:
            return step
        head = step.head
        # The length is that of the body that is gone; the writer states the new one.
        headers = tuple([each for each in head.headers if each[0] != "content-length"])
        sent = Head(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)
        return SendRequest(sent, searches_body=False, body=self._written_body)

    def _check(self) -> SecretCheck:
        return SecretCheck(self._needles, self._canaries, self._knows)
