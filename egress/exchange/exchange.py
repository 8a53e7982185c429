"""The order of the steps of one exchange.

Theory of operation. The stages follow each other and never go back:

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

The exchange keeps the policy it began with, whatever is reloaded meanwhile. What it looks for it does not
keep: a secret may get its value, or another one, while an answer runs, and come back in that answer. So
`learn` may come between any two steps, and an answer is searched where any secret may come back, known by
then or not. There is no clock: `now` comes in once, with the head. There is no step for trailers of a
request: they would come after the decision, so they do not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from egress.credentials import NO_PLACEHOLDERS, AppliedHead, CanaryScan, Placeholders, apply_credentials
from egress.errors import EgressError, WireError
from egress.exchange.content_coding import CodingError, ContentCoding, Decoder, asking_for_plain, coding_of
from egress.exchange.grpc_framing import GrpcMessages, is_grpc
from egress.exchange.messages import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    NeedSecrets,
    Request,
    Response,
    SendRequest,
)
from egress.exchange.record import ExchangeRecord, RecordBuilder, shown_method, shown_path
from egress.exchange.request import can_find_injected, decidable_head, head_with_target
from egress.exchange.response import (
    DIGEST_FIELDS,
    NO_NAMES,
    cleaned_answer,
    cleaned_trailers,
    holds_secret,
    needs_search,
)
from egress.rules.decide.decision import decide
from egress.rules.decide.limits import LimitResult, smallest_limit
from egress.rules.decide.policy import Policy
from egress.scrub import Needles, Scrubber
from egress.types import (
    NO_EFFECTS,
    Decision,
    Head,
    Headers,
    Identity,
    InjectPlaceholder,
    Limit,
    Scrub,
    Secret,
    Verdict,
)

MAX_INTERIM_RESPONSES = 100
"""How many interim heads may stand before a response; an upstream could send them for ever."""

LANE_ENDED_CODE = "lane.ended"
"""The code of an exchange that a lane finished without saying why it had not come to its end."""

Spend = Callable[[tuple[Limit, ...]], LimitResult]
"""Counts a request against the limits of its decision; the state is the caller's."""


class OrderError(EgressError):
    """A step was asked for in the wrong stage: a bug in a lane. The exchange is over."""

    code = "internal"


class ExchangeStage(Enum):
    """Where an exchange stands."""

    HEAD = "head"
    SECRETS = "secrets"
    SENT = "sent"
    BODY = "body"
    FRAMES = "frames"
    DONE = "done"
    BROKEN = "broken"


class Exchange:
    """One request and its response, from head to record."""

    __slots__ = (
        "_account",
        "_decision",
        "_decoded_length",
        "_decoder",
        "_destination",
        "_effects",
        "_envelopes",
        "_has_body",
        "_head",
        "_identity",
        "_interim",
        "_is_recorded",
        "_is_unreadable",
        "_most_down",
        "_most_up",
        "_needles",
        "_placeholders",
        "_policy",
        "_request",
        "_scrubber",
        "_searches",
        "_spend",
        "_stage",
        "_told",
        "_watch",
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
        watch: CanaryScan | None = None,
    ) -> None:
        """`needles` are those of every secret that may come back from the destination.

        As far as values are known by now; None where there is no such secret, known or not.
        """
        self._policy = policy
        self._identity = identity
        self._destination = destination
        self._placeholders = placeholders
        self._needles = needles
        self._spend = spend
        self._watch = watch
        self._stage = ExchangeStage.HEAD
        self._request: Request | None = None
        self._head: Head | None = None
        self._decision: Decision | None = None
        self._effects = NO_EFFECTS
        self._searches = False
        self._scrubber: Scrubber | None = None
        self._decoder: Decoder | None = None
        self._envelopes: GrpcMessages | None = None
        self._decoded_length = 0
        self._has_body = False
        self._interim = 0
        self._most_up: int | None = None
        self._most_down: int | None = None
        self._account = RecordBuilder()
        self._is_recorded = False
        self._is_unreadable = False
        self._told: Headers = ()

    def would_begin(self, policy: Policy, now: int) -> bool:
        """Whether this policy would let the exchange begin now, with the same secrets.

        For rules that have changed while it runs: it asks, and changes nothing.
        """
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
        if self._watch is not None and (seen := self._watch.scan_head(head)):
            return self._deny(self._account.note_canary(seen))
        self._decision = decision = decide(self._policy, self._identity, head, now)
        if not decision.allowed:
            return self._deny(decision.code)
        self._effects = decision.effects
        limits = decision.effects.limits
        if limits:
            self._most_up = smallest_limit(limit.request_body for limit in limits)
            self._most_down = smallest_limit(limit.response_body for limit in limits)
        if self._most_up is not None and length > self._most_up:
            return self._deny("limit.request_body")
        if self._spend is not None and limits:
            taken = self._spend(limits)
            if not taken.allowed:
                return self._deny("limit.requests", taken.retry_after)
        self._head = head_with_target(head, decision.target)
        wanted = self._wanted(self._head)
        self._stage = ExchangeStage.SECRETS
        if not wanted:
            return self.provide({}, self._needles)
        return NeedSecrets(wanted, unscrubbed=decision.effects.scrub is Scrub.OFF)

    def provide(self, secrets: Mapping[str, Secret], needles: Needles | None) -> DenyRequest | SendRequest:
        """Inject. `needles` as in the constructor, now with the values in `secrets` among them.

        A secret that could not be had is simply missing from `secrets`, and denies the request. So
        do needles that do not find in the head to be sent what was written there: then nothing could
        be found in the response either.
        """
        self._enter(ExchangeStage.SECRETS)
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
            misplaced_pass=effects.misplaced_pass,
            closing=asking_for_plain if self._searches else None,
        )
        if not isinstance(applied, AppliedHead):
            return self._deny(applied.code)
        if effects.scrub is not Scrub.OFF and not can_find_injected(needles, applied.written, applied.head):
            return self._deny("internal")
        account = self._account
        account.injected, account.replaced, account.is_sent = applied.written, applied.replaced, True
        self._stage = ExchangeStage.SENT
        return SendRequest(applied.head)

    def request_data(self, chunk: bytes, *, aside: bool = False) -> CutExchange | None:
        """Count a piece of request body, or of a frame (`aside`: of a control frame); a cut when too much."""
        stage = self._enter(ExchangeStage.SENT, ExchangeStage.BODY, ExchangeStage.FRAMES)
        if self._most_up is not None and self._account.up + len(chunk) > self._most_up:
            return self._cut("limit.request_body")
        if self._watch is not None and (seen := self._watch.scan_piece(chunk, aside=aside)):
            return self._cut(self._account.note_canary(seen))
        self._account.up += len(chunk)
        self._stage = stage
        return None

    # The response

    def update_needles(self, needles: Needles | None) -> None:
        """Look for these in all that is still to come; in any stage, and cheap when they are the same.

        Where nothing was searched yet and the answer is under way in a coding, it cannot be searched any
        more: the next piece of it cuts the exchange.
        """
        if needles is self._needles or needles is None:
            return
        self._needles = needles
        self._searches = needs_search(self._effects, needles)
        if self._scrubber is not None:
            self._scrubber.update_needles(needles)
        elif self._searches and self._stage in (ExchangeStage.BODY, ExchangeStage.FRAMES):
            self._is_unreadable = coding_of(self._told) is not ContentCoding.PLAIN
            self._scrubber = None if self._is_unreadable else Scrubber(needles, self._account.found)

    def informational(self, response: Response) -> AnswerHead | CutExchange:
        """An interim head (1xx): cleaned like a final one, and nothing follows from it."""
        self._enter(ExchangeStage.SENT)
        self._interim += 1
        if (
            not 100 <= response.status < 200
            or response.status == 101
            or self._interim > MAX_INTERIM_RESPONSES
        ):
            return self._cut("upstream.malformed")
        answer = self._cleaned(Response(response.status, response.reason, response.headers, has_body=False))
        if isinstance(answer, AnswerHead):
            self._stage = ExchangeStage.SENT
        return answer

    def respond(self, response: Response) -> AnswerHead | CutExchange:
        """The final head of the upstream."""
        self._enter(ExchangeStage.SENT)
        switches = response.status == 101 and self._head is not None and self._head.websocket
        if not switches and not 200 <= response.status < 600:
            return self._cut("upstream.malformed")
        answer = self._cleaned(response)
        if isinstance(answer, AnswerHead):
            self._account.status = answer.status
            self._has_body = response.has_body
            self._told = response.headers
            needles = self._needles if self._searches else None
            self._scrubber = None if needles is None else Scrubber(needles, self._account.found)
            self._decoder = Decoder(answer.coding) if answer.decoded else None
            is_framed = self._searches and not answer.decoded and is_grpc(answer.headers)
            self._envelopes = GrpcMessages() if is_framed else None
            self._stage = ExchangeStage.FRAMES if switches else ExchangeStage.BODY
        return answer

    def data(self, chunk: bytes) -> list[bytes] | CutExchange:
        """A piece of response body, as the pieces that may go out now."""
        self._enter(ExchangeStage.BODY)
        if chunk and not self._has_body:
            return self._cut("upstream.malformed")
        pieces = self._passed(chunk)
        if not isinstance(pieces, CutExchange):
            self._stage = ExchangeStage.BODY
        return pieces

    def message(self, chunk: bytes, *, ends: bool) -> list[bytes] | CutExchange:
        """A piece of a WebSocket message from the upstream, as the pieces that may go out now.

        With the end of a message comes all of it that was held back. Limits count over all messages.
        """
        self._enter(ExchangeStage.FRAMES)
        pieces = self._passed(chunk)
        if isinstance(pieces, CutExchange):
            return pieces
        if ends and self._scrubber is not None:
            pieces += self._scrubber.finish()
        self._stage = ExchangeStage.FRAMES
        return pieces

    def control(self, payload: bytes) -> bytes | CutExchange:
        """The payload of a ping or pong, or the reason of a close, as it may go out; never split.

        It may stand in the middle of a message, and is searched on its own.
        """
        self._enter(ExchangeStage.FRAMES)
        if self._is_too_much(payload):
            return self._cut("limit.response_body")
        if self._searches and self._needles is not None:
            masked = self._needles.mask(payload)
            self._account.found.update(masked.found)
            if masked.hits and self._effects.scrub is Scrub.BLOCK:
                return self._cut("response.withheld")
            payload = masked.data
        self._account.down += len(payload)
        self._stage = ExchangeStage.FRAMES
        return payload

    def end(self, trailers: Headers = ()) -> tuple[list[bytes], Headers] | CutExchange:
        """The end of the response: what was held back, and the trailers."""
        self._enter(ExchangeStage.BODY, ExchangeStage.FRAMES)
        gone = NO_NAMES
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except CodingError as fault:
                return self._cut(fault.code)
            gone = DIGEST_FIELDS
        kept = cleaned_trailers(trailers, self._effects, self._needles, self._account.found, gone)
        if isinstance(kept, CutExchange):
            return self._cut(kept.code)
        # What was held back may have turned out to be one after the last piece had come.
        if self._effects.scrub is Scrub.BLOCK and self._account.found:
            return self._cut("response.withheld")
        rest = [] if self._scrubber is None else self._scrubber.finish()
        self._stage = ExchangeStage.DONE
        return rest, kept

    # The record

    def abort(self, code: str) -> None:
        """The lane could not go on (a peer left, a limit of its own): note why."""
        if self._stage is not ExchangeStage.DONE:
            self._fail_if_over("internal" if self._stage is ExchangeStage.BROKEN else code or LANE_ENDED_CODE)

    def finish(self, *, sent: bool = True) -> ExchangeRecord:
        """The one record of this exchange. An exchange that is not over is recorded as cut.

        `sent` is false where the lane never came to send what it was handed: then no secret has left.
        """
        if self._is_recorded:
            raise OrderError("an exchange is recorded once")
        self._is_recorded = True
        self.abort("internal" if self._stage is ExchangeStage.HEAD else LANE_ENDED_CODE)
        request, decision, account = self._request, self._decision, self._account
        return ExchangeRecord(
            identity=self._identity,
            destination=self._destination,
            method=shown_method(request.method, self._watch) if request else "",
            path=self._shown_path(),
            verdict=Verdict.ALLOW if account.is_sent else Verdict.DENY,
            code=account.code or (decision.code if decision else "internal"),
            rule=account.rule or (decision.rule if decision else None),
            place=account.rule.place if account.rule else decision.place if decision else None,
            observed=decision.observed if decision else False,
            status=account.status,
            injected=account.injected if sent else (),
            replaced=account.replaced and sent,
            scrubbed=tuple(sorted(account.found.items())) if account.found else (),
            bytes_up=account.up,
            bytes_down=account.down,
            policy=self._policy.digest,
        )

    # Inside

    def _wanted(self, head: Head) -> tuple[str, ...]:
        """The secrets this very request needs: a placeholder's only when its stand-in is there."""
        wanted: dict[str, None] = {}
        seen: set[str | None] | None = None
        for need in self._effects.needs:
            if isinstance(need, InjectPlaceholder):
                if seen is None:
                    seen = {sighting.secret for sighting in self._placeholders.find(head)}
                if need.secret not in seen:
                    continue
            wanted[need.secret] = None
        return tuple(wanted)

    def _cleaned(self, response: Response) -> AnswerHead | CutExchange:
        account = self._account
        answer = cleaned_answer(
            response,
            self._destination,
            self._effects,
            self._needles,
            account.found,
            injected=bool(account.injected),
            most=self._most_down,
        )
        return self._cut(answer.code) if isinstance(answer, CutExchange) else answer

    def _passed(self, chunk: bytes) -> list[bytes] | CutExchange:
        if self._is_too_much(chunk):
            return self._cut("limit.response_body")
        self._account.down += len(chunk)
        if self._decoder is not None:
            return self._decoded(self._decoder, chunk)
        if self._envelopes is not None:
            return self._framed(self._envelopes, chunk)
        return self._searched(chunk)

    def _framed(self, envelopes: GrpcMessages, chunk: bytes) -> list[bytes] | CutExchange:
        """A piece of gRPC, searched. With the end of a message comes all of it that was held back."""
        passed: list[bytes] = []
        try:
            for piece, ends in envelopes.split(chunk):
                pieces = self._searched(piece)
                if isinstance(pieces, CutExchange):
                    return pieces
                passed += pieces
                if ends and self._scrubber is not None:
                    passed += self._scrubber.finish()
        except WireError:
            return self._cut("upstream.malformed")
        return passed

    def _decoded(self, decoder: Decoder, chunk: bytes) -> list[bytes] | CutExchange:
        """What a coded chunk holds, searched. The limit is for what comes and for what it decodes to."""
        passed: list[bytes] = []
        try:
            for piece in decoder.feed(chunk):
                self._decoded_length += len(piece)
                if self._most_down is not None and self._decoded_length > self._most_down:
                    return self._cut("limit.response_body")
                pieces = self._searched(piece)
                if isinstance(pieces, CutExchange):
                    return pieces
                passed += pieces
        except CodingError as fault:
            return self._cut(fault.code)
        return passed

    def _searched(self, chunk: bytes) -> list[bytes] | CutExchange:
        if self._scrubber is None:
            if self._is_unreadable:
                return self._cut("response.withheld")
            return [chunk] if chunk else []
        pieces = self._scrubber.feed(chunk)
        if self._effects.scrub is Scrub.BLOCK and self._scrubber.hits:
            return self._cut("response.withheld")
        return pieces

    def _is_too_much(self, chunk: bytes) -> bool:
        return self._most_down is not None and self._account.down + len(chunk) > self._most_down

    def _shown_path(self) -> str:
        """The canonical path, or the raw one; what is secret and stands there is masked."""
        target = self._decision.target if self._decision else ""
        watch = None if self._decision else self._watch
        path = shown_path(target or (self._request.target if self._request else ""), watch)
        needles = self._needles
        return needles.mask_text(path).text if needles is not None and holds_secret(needles, path) else path

    def _deny(self, code: str, retry_after: int = 0) -> DenyRequest:
        self._fail_if_over(code)
        return DenyRequest(code, retry_after)

    def _cut(self, code: str) -> CutExchange:
        self._fail_if_over(code)
        return CutExchange(code)

    def _fail_if_over(self, code: str) -> None:
        self._stage = ExchangeStage.DONE
        self._account.close(code)

    def _enter(self, *stages: ExchangeStage) -> ExchangeStage:
        """Begin a step. Until it sets the stage that follows, the exchange counts as broken."""
        stage = self._stage
        if stage not in stages:
            self._fail_if_over("internal")
            raise OrderError(f"this step does not belong to the stage `{stage.value}` of an exchange")
        self._stage = ExchangeStage.BROKEN
        return stage
