"""The request half of an exchange: the stages before anything is sent. Pure.

`egress.exchange.exchange` has the order of all stages, and the response half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from egress.budgets.budget_desk import BudgetDesk, Reservation
from egress.budgets.call_plan import plan_call
from egress.credentials import NO_PLACEHOLDERS, AppliedHead, CanaryScan, Placeholders, apply_credentials
from egress.credentials.set_headers import with_set_headers
from egress.errors import EgressError
from egress.exchange.body_reading import BodyReading, refusal_answer
from egress.exchange.messages import (
    AnswerRequest,
    CallHandler,
    CutExchange,
    DenyRequest,
    Destination,
    ExchangeStage,
    HoldBody,
    NeedSecrets,
    RecordBuilder,
    Request,
    SendRequest,
)
from egress.exchange.request import (
    asking_for_plain,
    can_find_injected,
    decidable_head,
    head_with_length,
    head_with_target,
    needed_secrets,
)
from egress.exchange.response import (
    needs_search,
)
from egress.inspect.inspector import AnswerReader, Facts, RefusalAnswer, Unreadable
from egress.inspect.kinds import KINDS
from egress.inspect.llm.answer_meter import AnswerMeter
from egress.inspect.llm.body_rewrite import rewritten_body
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.mcp.conversation import SessionPlace
from egress.inspect.mcp.sessions import McpSessions
from egress.rules.decide.decision import chosen_profile, decide
from egress.rules.decide.limits import LimitResult, smallest_limit
from egress.rules.decide.llm_predicate import LlmTerms
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.shares.pool import OPEN_ACCOUNT, MemoryAccount
from egress.types import NO_EFFECTS, Decision, Head, Identity, Limit, Scrub, Secret

RequestStep = DenyRequest | HoldBody | CallHandler | AnswerRequest | NeedSecrets | SendRequest
"""What comes next for a request that is not sent yet."""

Spend = Callable[[tuple[Limit, ...]], LimitResult]
"""Counts a request against the limits of its decision; the state is the caller's."""


class OrderError(EgressError):
    """A step was asked for in the wrong stage: a bug in a lane. The exchange is over."""

    code = "internal"


class RequestSteps:
    """A request, from its head to the moment at which it is sent."""

    __slots__ = (
        "_answer_reader",
        "_canaries",
        "_decision",
        "_destination",
        "_effects",
        "_found",
        "_head",
        "_identity",
        "_knows",
        "_length",
        "_max_down",
        "_max_up",
        "_meter",
        "_needles",
        "_new_body",
        "_newer",
        "_now",
        "_placeholders",
        "_reading",
        "_record",
        "_request",
        "_reservation",
        "_searches",
        "_spend",
        "_stage",
        "account",
        "budgets",
        "policy",
        "sessions",
    )

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        destination: Destination,
        *,
        placeholders: Placeholders = NO_PLACEHOLDERS,
        needles: Needles | None = None,
        spend: Spend | None = None,
        canaries: CanaryScan | None = None,
        knows: Callable[[str], bool] | None = None,
    ) -> None:
        """`needles` find every secret that may come back; None if the destination gets no secret.

        `knows` tells whether a text holds the value of any secret at all, wherever it may go.
        """
        self.policy = policy
        self._identity = identity
        self._destination = destination
        self._placeholders = placeholders
        self._needles = needles
        self._spend = spend
        self._canaries, self._knows = canaries, knows
        # Below are the findings of the stages, empty until each is reached.
        self._answer_reader: AnswerReader | None = None
        """Reads the answer, where the rules ask for that."""
        self._stage = ExchangeStage.HEAD
        self._request: Request | None = None
        self._head: Head | None = None
        self._length = 0
        self._now = 0
        self._newer: tuple[Policy, int] | None = None
        """The policy that came into force while the body was held, and when."""
        self._reading: BodyReading | None = None
        self._found: Facts | Unreadable | None = None
        """What the body said on which the request was decided."""
        self._decision: Decision | None = None
        self._effects = NO_EFFECTS
        self._searches = False
        self._max_up: int | None = None
        self._max_down: int | None = None
        self._reservation: Reservation | None = None
        self._meter: AnswerMeter | None = None
        self._new_body: bytes | None = None
        self._record = RecordBuilder()
        self.account: MemoryAccount = OPEN_ACCOUNT
        """What decoders take their memory of; the owner of the exchange sets it."""
        self.sessions: McpSessions | None = None
        """The sessions of MCP that the sandbox has; the owner sets them. Without them no session is known."""
        self.budgets: BudgetDesk | None = None
        """Where calls of models are reserved and settled; without it none is sent. The owner sets it."""

    def would_begin(self, policy: Policy, now: int) -> bool:
        """Tell whether this policy would let the exchange begin now, with the same secrets."""
        if self._head is None or self._decision is None:
            return self._stage is ExchangeStage.HEAD
        if self._stage is ExchangeStage.HELD:
            # What the body says is not known yet: at its end, this policy has to allow it as well.
            self._newer = policy, now
            return bool(decide(policy, self._identity, self._head, now).inspects)
        return self._is_allowed_by(policy, now)

    # The request

    def begin(self, request: Request, now: int) -> RequestStep:
        """Check and decide a request head; what comes next is in the answer."""
        self._enter(ExchangeStage.HEAD)
        self._request = request
        read = decidable_head(request, self._destination)
        if isinstance(read, DenyRequest):
            return self._deny(read.code)
        head, length = read
        # Canaries come before the decision: a planted value is reported even if the rules deny the request.
        if self._canaries is not None and (seen := self._canaries.scan_head(head)):
            return self._deny(self._record.note_canary(seen))
        self._head, self._length, self._now = head, length, now
        self._decision = decision = decide(self.policy, self._identity, head, now)
        if self.policy.overlays:
            self._record.chosen_profile = chosen_profile(self.policy, self._identity, now)
        if decision.inspects:
            return self._hold(head, decision)
        return self._decided(head, decision)

    def inspect(self, chunk: bytes) -> RequestStep:
        """Read a piece of the body that the rules ask about."""
        self._enter(ExchangeStage.HELD)
        reading = self._reading
        if reading is None:
            return self._deny("internal")
        is_new = reading.feed(chunk)
        if self._max_up is not None and reading.size > self._max_up:
            return self._deny("limit.request_body")
        if is_new or not reading.goes_on:
            return self._judge(reading)
        self._stage = ExchangeStage.HELD
        return HoldBody()

    def inspect_end(self) -> RequestStep:
        """Read the end of the body that the rules ask about."""
        self._enter(ExchangeStage.HELD)
        if self._reading is None:
            return self._deny("internal")
        self._reading.end()
        return self._judge(self._reading, is_whole=True)

    def _hold(self, head: Head, decision: Decision) -> RequestStep:
        """Begin to read the body. Limits of rules are known after the verdict, those of the entry already."""
        self._max_up = smallest_limit(limit.request_body for limit in decision.effects.limits)
        if self._max_up is not None and self._length > self._max_up:
            return self._deny("limit.request_body")
        return self._judge(self._begin_reading(head, decision))

    def _begin_reading(self, head: Head, decision: Decision) -> BodyReading:
        """Return the reading of a body that this decision asks about, in the sessions of the sandbox."""
        place = None
        if decision.inspects == "mcp":
            place = SessionPlace(self.sessions or McpSessions(), head.host, head.port)
        reading = BodyReading(KINDS[decision.inspects], head_with_target(head, decision.target), place)
        self._reading = reading
        return reading

    def _judge(self, reading: BodyReading, *, is_whole: bool = False) -> RequestStep:
        """Decide by what the body says so far, or read on."""
        head, found = self._head, reading.found
        if head is None or (found is None and is_whole):
            return self._deny("internal")
        if found is not None:
            decision = decide(self.policy, self._identity, head, self._now, found)
            if decision.allowed or is_whole or not reading.goes_on:
                self._decision, self._found = decision, found
                return self._decided(head, decision)
        self._stage = ExchangeStage.HELD
        return HoldBody()

    def _decided(self, head: Head, decision: Decision) -> RequestStep:
        """Go on after the verdict of the rules."""
        # A part that was read may be longer than the rules that cover it allow.
        known = max(self._length, self._reading.size if self._reading is not None else 0)
        denied = self._take_decision(head, decision, known)
        return self._go_on(decision) if denied is None else denied

    def _take_decision(
        self, head: Head, decision: Decision, known: int, counted: tuple[Limit, ...] = ()
    ) -> DenyRequest | None:
        """Let the request have the effects of this decision; return the denial that comes of it.

        `known` are the bytes of its body, as far as they are known; `counted` are limits it was counted for.
        """
        if not decision.allowed:
            return self._deny(decision.code)
        self._effects, self._record.lifted = decision.effects, decision.lifted
        self._head = head_with_target(head, decision.target)
        if self._newer is not None and not self._is_allowed_by(*self._newer):
            return self._deny("access.withdrawn")
        limits = decision.effects.limits
        if limits:
            self._max_up = smallest_limit(limit.request_body for limit in limits)
            self._max_down = smallest_limit(limit.response_body for limit in limits)
        if self._max_up is not None and known > self._max_up:
            return self._deny("limit.request_body")
        # Counted last: a request that another check denies must not use up the limit.
        limits = tuple([limit for limit in limits if limit not in counted]) if counted else limits
        if self._spend is not None and limits:
            taken = self._spend(limits)
            if not taken.allowed:
                return self._deny("limit.requests", taken.retry_after)
        return None

    def _go_on(self, decision: Decision) -> RequestStep:
        """Go on with a request that the rules let through: next are its secrets."""
        if self._head is None:
            return self._deny("internal")
        if isinstance(self._found, Facts) and self._found.answers is not None:
            self._answer_reader = self._found.answers.answer_reader(decision.terms)
        # Last of all checks: the request is as it will be sent, whatever a handler made of it.
        if isinstance(decision.terms, LlmTerms) and (denied := self._reserve(decision, decision.terms)):
            return denied
        needed = needed_secrets(decision.effects, self._placeholders, self._head)
        self._stage = ExchangeStage.SECRETS
        if not needed:
            return self.provide({}, self._needles)
        return NeedSecrets(needed, unscrubbed=decision.effects.scrub is Scrub.OFF)

    def _reserve(self, decision: Decision, terms: LlmTerms) -> DenyRequest | None:
        """Reserve what a call of a language model can cost, and write it anew where it was lowered."""
        found = self._found
        call = found.items[0] if isinstance(found, Facts) and len(found.items) == 1 else None
        if not isinstance(found, Facts) or not isinstance(call, LlmCall) or self.budgets is None:
            return self._deny("internal")
        secrets = tuple(need.secret for need in self._effects.needs)
        taken = self.budgets.reserve(self.policy, self._identity, secrets, terms, plan_call(terms, call))
        if not isinstance(taken, Reservation):
            # The sandbox is told which budget, and never how much of it there is.
            self._decision = replace(decision, item=taken.budget and f"budget {taken.budget}")
            return self._deny(taken.code, taken.wait)
        self._reservation = taken
        self._answer_reader = self._meter = AnswerMeter(terms.api, drops_usage=taken.plan.adds_usage)
        change = taken.plan.change
        if change.is_needed:
            document = found.context
            self._new_body = rewritten_body(call, document, change) if isinstance(document, dict) else None
            if self._new_body is None:
                return self._deny("llm.max_output")
        return None

    def provide(self, secrets: Mapping[str, Secret], needles: Needles | None) -> DenyRequest | SendRequest:
        """Inject. `needles` as in the constructor, now with the values in `secrets` among them.

        A secret that could not be resolved is missing from `secrets`, and denies the request. Needles
        that do not find the injected value in the head deny it too: they would miss it in the response.
        """
        self._enter(ExchangeStage.SECRETS)
        # A lane that mixes up names would send a secret to a host to which it is not bound.
        for name, secret in secrets.items():
            if secret.name != name:
                return self._deny("internal")
        if self._head is None:
            return self._deny("internal")
        effects = self._effects
        self._needles = needles
        self._searches = needs_search(effects, needles)
        applied = apply_credentials(
            with_set_headers(self._head, effects.set_headers),
            effects.needs,
            secrets,
            self._placeholders,
            strips=effects.strips,
            misplaced_pass=effects.misplaced_pass,
            closing=asking_for_plain if self._searches or self._answer_reader is not None else None,
        )
        if not isinstance(applied, AppliedHead):
            return self._deny(applied.code)
        if effects.scrub is not Scrub.OFF and not can_find_injected(needles, applied.written, applied.head):
            return self._deny("internal")
        record = self._record
        record.injected, record.replaced, record.is_handed_out = applied.written, applied.replaced, True
        record.stripped = applied.stripped
        self._stage = ExchangeStage.SENT
        head = applied.head
        if self._new_body is not None:
            head = head_with_length(head, len(self._new_body))
        step = SendRequest(head, searches_body=self._canaries is not None, body=self._new_body)
        return self._sending(step)

    def _sending(self, step: SendRequest) -> SendRequest:
        """Return the last step of a request as it is carried out."""
        return step

    def request_data(self, chunk: bytes, *, aside: bool = False) -> CutExchange | None:
        """Count and scan a piece of request body, or of a frame (`aside`: of a control frame)."""
        stage = self._enter(ExchangeStage.SENT, ExchangeStage.BODY, ExchangeStage.FRAMES)
        if self._max_up is not None and self._record.up + len(chunk) > self._max_up:
            return self._cut("limit.request_body")
        if self._canaries is not None and (seen := self._canaries.scan_piece(chunk, aside=aside)):
            return self._cut(self._record.note_canary(seen))
        self._record.up += len(chunk)
        self._stage = stage
        return None

    # Inside

    def _is_allowed_by(self, policy: Policy, now: int) -> bool:
        """Tell whether another policy allows the request, as far as it was read, with the same secrets."""
        if self._head is None:
            return False
        decision = decide(policy, self._identity, self._head, now, self._found)
        kept = {need.secret for need in decision.effects.needs}
        return decision.allowed and all(need.secret in kept for need in self._effects.needs)

    def _deny(self, code: str, retry_after: int = 0) -> DenyRequest:
        self._fail_if_over(code)
        decision, reading = self._decision, self._reading
        rule = decision.rule if decision is not None and not decision.allowed else None
        answer = None
        if decision is not None and decision.body_kind:
            found = reading.found if reading is not None and self._found is None else self._found
            answer = refusal_answer(KINDS[decision.body_kind], code, decision, found, retry_after)
            self._record.status = answer.status
        return DenyRequest(code, retry_after, rule.reason if rule is not None else "", answer)

    def cut_answer(self, code: str) -> RefusalAnswer | None:
        """Return the answer to a client that gets none of the upstream, in the language of its request.

        None where nobody reads the answers to such requests: a page tells of it then.
        """
        decision, reading = self._decision, self._reading
        if self._answer_reader is None or decision is None or reading is None:
            return None
        return refusal_answer(KINDS[decision.body_kind], code, decision, reading.found)

    def _cut(self, code: str) -> CutExchange:
        self._fail_if_over(code)
        return CutExchange(code)

    def _fail_if_over(self, code: str) -> None:
        self._stage = ExchangeStage.DONE
        self._record.close(code)

    def _enter(self, *stages: ExchangeStage) -> ExchangeStage:
        """Begin a step. The exchange counts as broken until the step sets the next stage."""
        stage = self._stage
        if stage not in stages:
            self._fail_if_over("internal")
            raise OrderError(f"this step does not belong to the stage `{stage.value}` of an exchange")
        self._stage = ExchangeStage.BROKEN
        return stage
