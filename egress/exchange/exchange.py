"""The order of the steps of an exchange.

The stages follow each other and never go back:

    HEAD       `begin`     identity and destination are fixed; request checks, rules, limits
    SECRETS    `provide`   the values that the decision needs; injection
    SENT       `request_data`, `informational`, `respond`
    BODY       `request_data`, `data`, `end`
    FRAMES     `request_data`, `message`, `control`, `end`: after the switch to a WebSocket
    DONE       `finish`    the one record

A denial or a cut at any stage leads to DONE, and so does a step out of order, which raises
`OrderError`: a lane that loses track is cut off, never waved through. While a step runs the exchange
is BROKEN. A step that raises leaves it so, and nothing can be sent or passed on any more; there is
no way to a `SendRequest` but through every check before it.

The exchange keeps the policy it began with, also across a reload. Its needles may change: a secret may get
its value, or another one, while a response runs, and come back in that response. So `update_needles` may come
between any two steps. The exchange has no clock: `now` comes in once, with the head. Trailers of a request do
not travel: they would come after the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from egress.credentials import NO_PLACEHOLDERS, AppliedHead, CanaryScan, Placeholders, apply_credentials
from egress.errors import EgressError
from egress.exchange.messages import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    ExchangeRecord,
    ExchangeStage,
    NeedSecrets,
    RecordBuilder,
    Request,
    Response,
    SendRequest,
    read_trace_parent,
)
from egress.exchange.recorded_query import SecretCheck, recorded_query
from egress.exchange.request import (
    asking_for_plain,
    can_find_injected,
    decidable_head,
    head_with_target,
    needed_secrets,
    shown_method,
    shown_path,
)
from egress.exchange.response import (
    DIGEST_FIELDS,
    NO_NAMES,
    cleaned_answer,
    cleaned_trailers,
    holds_secret,
    is_grpc,
    must_withhold,
    needs_search,
)
from egress.exchange.response_body import ResponseBody
from egress.rules.decide.decision import chosen_profile, decide
from egress.rules.decide.limits import LimitResult, smallest_limit
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.shares.pool import OPEN_ACCOUNT, MemoryAccount
from egress.shares.turns import ENDLESS_TURN, Turn
from egress.types import NO_EFFECTS, Decision, Head, Headers, Identity, Limit, Scrub, Secret

MAX_INTERIM_RESPONSES = 100
"""Interim heads before a response; an upstream could send them for ever."""

LANE_ENDED_CODE = "lane.ended"
"""The code of an exchange that a lane finished without saying why it had not come to its end."""

Spend = Callable[[tuple[Limit, ...]], LimitResult]
"""Counts a request against the limits of its decision; the state is the caller's."""


class OrderError(EgressError):
    """A step was asked for in the wrong stage: a bug in a lane. The exchange is over."""

    code = "internal"


class Exchange:
    """A request and its response, from head to record."""

    __slots__ = (
        "_body",
        "_canaries",
        "_decision",
        "_destination",
        "_effects",
        "_has_body",
        "_head",
        "_identity",
        "_interim",
        "_is_recorded",
        "_knows",
        "_max_down",
        "_max_up",
        "_needles",
        "_placeholders",
        "_record",
        "_request",
        "_searches",
        "_spend",
        "_stage",
        "account",
        "policy",
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
        self._stage = ExchangeStage.HEAD
        self._request: Request | None = None
        self._head: Head | None = None
        self._decision: Decision | None = None
        self._effects = NO_EFFECTS
        self._searches = False
        self._has_body = False
        self._interim = 0
        self._max_up: int | None = None
        self._max_down: int | None = None
        self._record = RecordBuilder()
        self._is_recorded = False
        self._body: ResponseBody | None = None
        self.account: MemoryAccount = OPEN_ACCOUNT
        """What decoders take their memory of; the owner of the exchange sets it."""

    def would_begin(self, policy: Policy, now: int) -> bool:
        """Tell whether this policy would let the exchange begin now, with the same secrets."""
        if self._head is None or self._decision is None:
            return self._stage is ExchangeStage.HEAD
        decision = decide(policy, self._identity, self._head, now)
        kept = {need.secret for need in decision.effects.needs}
        return decision.allowed and all(need.secret in kept for need in self._effects.needs)

    # The request

    def begin(self, request: Request, now: int) -> DenyRequest | NeedSecrets | SendRequest:
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
        self._decision = decision = decide(self.policy, self._identity, head, now)
        if self.policy.overlays:
            self._record.chosen_profile = chosen_profile(self.policy, self._identity, now)
        if not decision.allowed:
            return self._deny(decision.code)
        self._effects, self._record.lifted = decision.effects, decision.lifted
        limits = decision.effects.limits
        if limits:
            self._max_up = smallest_limit(limit.request_body for limit in limits)
            self._max_down = smallest_limit(limit.response_body for limit in limits)
        if self._max_up is not None and length > self._max_up:
            return self._deny("limit.request_body")
        # Counted last: a request that another check denies must not use up the limit.
        if self._spend is not None and limits:
            taken = self._spend(limits)
            if not taken.allowed:
                return self._deny("limit.requests", taken.retry_after)
        self._head = head_with_target(head, decision.target)
        needed = needed_secrets(decision.effects, self._placeholders, self._head)
        self._stage = ExchangeStage.SECRETS
        if not needed:
            return self.provide({}, self._needles)
        return NeedSecrets(needed, unscrubbed=decision.effects.scrub is Scrub.OFF)

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
            self._head,
            effects.needs,
            secrets,
            self._placeholders,
            strips=effects.strips,
            misplaced_pass=effects.misplaced_pass,
            closing=asking_for_plain if self._searches else None,
        )
        if not isinstance(applied, AppliedHead):
            return self._deny(applied.code)
        if effects.scrub is not Scrub.OFF and not can_find_injected(needles, applied.written, applied.head):
            return self._deny("internal")
        record = self._record
        record.injected, record.replaced, record.is_handed_out = applied.written, applied.replaced, True
        record.stripped = applied.stripped
        self._stage = ExchangeStage.SENT
        return SendRequest(applied.head, searches_body=self._canaries is not None)

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

    # The response

    def update_needles(self, needles: Needles | None) -> None:
        """Search the rest of the response for these; allowed in any stage, and cheap if they are the same.

        A response that runs unsearched in a coding cannot be searched any more: its next piece cuts the
        exchange.
        """
        if needles is self._needles or needles is None:
            return
        self._needles = needles
        self._searches = needs_search(self._effects, needles)
        if self._body is not None and self._searches:
            self._body.search_late(needles)

    def informational(self, response: Response) -> AnswerHead | CutExchange:
        """Clean an interim head (1xx) like a final one; it changes no state."""
        self._enter(ExchangeStage.SENT)
        self._interim += 1
        is_interim = 100 <= response.status < 200 and response.status != 101
        if not is_interim or self._interim > MAX_INTERIM_RESPONSES:
            return self._cut("upstream.malformed")
        answer = self._cleaned(Response(response.status, response.reason, response.headers, has_body=False))
        if isinstance(answer, AnswerHead):
            self._stage = ExchangeStage.SENT
        return answer

    def respond(self, response: Response) -> AnswerHead | CutExchange:
        """Take the final head of the upstream."""
        self._enter(ExchangeStage.SENT)
        switches = response.status == 101 and self._head is not None and self._head.websocket
        # A 101 that no request asked for would turn the connection into a tunnel that is never read.
        if not switches and not 200 <= response.status < 600:
            return self._cut("upstream.malformed")
        answer = self._cleaned(response)
        if isinstance(answer, AnswerHead):
            self._record.status = answer.status
            self._has_body = response.has_body
            body = self._body = ResponseBody(
                self._effects, self._record.found, response.headers, self._max_down
            )
            if self._searches and self._needles is not None:
                body.search(self._needles)
            if answer.coding:
                body.decode(answer.coding, self.account)
            elif self._searches and is_grpc(answer.headers):
                body.split_messages()
            self._stage = ExchangeStage.FRAMES if switches else ExchangeStage.BODY
        return answer

    def data(self, chunk: bytes, turn: Turn = ENDLESS_TURN) -> list[bytes] | CutExchange:
        """Take a piece of response body; return the pieces that may go out now.

        Decoding goes on for as long as the turn does; then the exchange is behind.
        """
        self._enter(ExchangeStage.BODY)
        # Bytes where no body can follow would be taken for the next response (response smuggling).
        if chunk and not self._has_body:
            return self._cut("upstream.malformed")
        pieces = self._passed(chunk, turn)
        if not isinstance(pieces, CutExchange):
            self._stage = ExchangeStage.BODY
        return pieces

    @property
    def is_behind(self) -> bool:
        """A part of the last piece is still to be decoded: `more` comes next."""
        return self._body is not None and self._body.is_behind

    def more(self, turn: Turn) -> list[bytes] | CutExchange:
        """Go on with the last piece of response body."""
        self._enter(ExchangeStage.BODY)
        pieces = [] if self._body is None else self._body.more(turn)
        if isinstance(pieces, CutExchange):
            return self._cut(pieces.code)
        self._stage = ExchangeStage.BODY
        return pieces

    def message(self, chunk: bytes, *, ends: bool) -> list[bytes] | CutExchange:
        """Take a piece of a WebSocket message from the upstream; return the pieces that may go out now.

        The end of a message releases its held bytes. Limits count over all messages.
        """
        self._enter(ExchangeStage.FRAMES)
        pieces = self._passed(chunk, ENDLESS_TURN)
        if isinstance(pieces, CutExchange):
            return pieces
        if ends and self._body is not None:
            pieces += self._body.end_message()
        self._stage = ExchangeStage.FRAMES
        return pieces

    def control(self, payload: bytes) -> bytes | CutExchange:
        """Take the payload of a ping or pong, or the reason of a close; return it as it may go out.

        It may stand in the middle of a message, and is searched on its own.
        """
        self._enter(ExchangeStage.FRAMES)
        if self._is_too_much(payload):
            return self._cut("limit.response_body")
        if self._searches and self._needles is not None:
            masked = self._needles.mask(payload)
            self._record.found.update(masked.found)
            if must_withhold(self._effects, self._record.found):
                return self._cut("response.withheld")
            payload = masked.data
        self._record.down += len(payload)
        self._stage = ExchangeStage.FRAMES
        return payload

    def end(self, trailers: Headers = ()) -> tuple[list[bytes], Headers] | CutExchange:
        """End the response; return the held bytes and the trailers."""
        self._enter(ExchangeStage.BODY, ExchangeStage.FRAMES)
        body = self._body
        if body is None or body.is_behind:
            return self._cut("internal")
        if code := body.check_end():
            return self._cut(code)
        gone = DIGEST_FIELDS if body.is_decoded else NO_NAMES
        kept = cleaned_trailers(trailers, self._effects, self._needles, self._record.found, gone)
        if isinstance(kept, CutExchange):
            return self._cut(kept.code)
        # Trailers, and new needles since the last piece, may have found a secret too.
        if must_withhold(self._effects, self._record.found):
            return self._cut("response.withheld")
        self._stage = ExchangeStage.DONE
        return body.end_message(), kept

    # The record

    def abort(self, code: str) -> None:
        """Note why the lane could not go on: a peer left, or a limit of the lane."""
        if self._stage is not ExchangeStage.DONE:
            self._fail_if_over("internal" if self._stage is ExchangeStage.BROKEN else code or LANE_ENDED_CODE)

    def finish(self, *, sent: bool = True, is_end_proven: bool = True) -> ExchangeRecord:
        """Return the record of this exchange, once. An exchange that is not over counts as stopped.

        `sent` is false if the lane never sent the head that it was handed: then no secret has left.
        `is_end_proven` is false if the end of the response may be the work of somebody on the way.
        """
        if self._is_recorded:
            raise OrderError("an exchange is recorded once")
        self._is_recorded = True
        self.abort("internal" if self._stage is ExchangeStage.HEAD else LANE_ENDED_CODE)
        if self._body is not None:
            self._body.close()
        request, decision, noted = self._request, self._decision, self._record
        # Every text is judged by what is known now: a secret may have got its value since the head came.
        check = SecretCheck(self._needles, self._canaries, self._knows)
        target = decision.target if decision else ""
        return ExchangeRecord(
            identity=self._identity,
            destination=self._destination,
            method=shown_method(request.method, self._canaries) if request else "",
            path=self._shown_path(),
            verdict=noted.verdict(decision, sent=sent),
            code=noted.code or (decision.code if decision else "internal"),
            rule=noted.rule or (decision.rule if decision else None),
            place=noted.rule.place if noted.rule else decision.place if decision else None,
            observed=decision.observed if decision else False,
            status=noted.status,
            injected=noted.injected if sent else (),
            replaced=noted.replaced and sent,
            scrubbed=tuple(sorted(noted.found.items())) if noted.found else (),
            bytes_up=noted.up,
            bytes_down=noted.down,
            policy=self.policy.digest,
            query=recorded_query(decision, self._effects, check) if "?" in target else (),
            facts=noted.facts(sent=sent, is_end_proven=is_end_proven),
            trace=read_trace_parent(request.headers) if request else None,
        )

    # Inside

    def _cleaned(self, response: Response) -> AnswerHead | CutExchange:
        answer = cleaned_answer(
            response,
            self._destination,
            self._effects,
            self._needles,
            self._record.found,
            injected=bool(self._record.injected),
            max_bytes=self._max_down,
        )
        return self._cut(answer.code) if isinstance(answer, CutExchange) else answer

    def _passed(self, chunk: bytes, turn: Turn) -> list[bytes] | CutExchange:
        if self._body is None:
            return self._cut("internal")
        if self._is_too_much(chunk):
            return self._cut("limit.response_body")
        self._record.down += len(chunk)
        pieces = self._body.feed(chunk, turn)
        return self._cut(pieces.code) if isinstance(pieces, CutExchange) else pieces

    def _is_too_much(self, chunk: bytes) -> bool:
        return self._max_down is not None and self._record.down + len(chunk) > self._max_down

    def _shown_path(self) -> str:
        """Return the canonical path, or the raw one without a decision; its secrets are masked."""
        request, decision, needles = self._request, self._decision, self._needles
        target = (decision.target if decision else "") or (request.target if request else "")
        path = shown_path(target, None if decision else self._canaries)
        return needles.mask_text(path).text if needles is not None and holds_secret(needles, path) else path

    def _deny(self, code: str, retry_after: int = 0) -> DenyRequest:
        self._fail_if_over(code)
        rule = self._decision.rule if self._decision is not None and not self._decision.allowed else None
        return DenyRequest(code, retry_after, rule.reason if rule is not None else "")

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
