"""The order of the steps of an exchange.

The stages follow each other and never go back:

    HEAD       `begin`     identity and destination are fixed; request checks, rules, limits
    HELD       `inspect`, `inspect_end`: the body, where rules ask what it says; rules, limits
    HANDLER    `handled`      the verdict of a handler, where one is called; what it changes goes by the rules
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
from dataclasses import replace

from egress.credentials import NO_PLACEHOLDERS, CanaryScan, Placeholders
from egress.exchange.handler_steps import HandlerSteps
from egress.exchange.messages import (
    AnswerHead,
    CutExchange,
    Destination,
    ExchangeRecord,
    ExchangeStage,
    Response,
    read_trace_parent,
)
from egress.exchange.recorded_query import HIDDEN_TEXT, SecretCheck, recorded_query
from egress.exchange.request import (
    shown_method,
    shown_path,
)
from egress.exchange.request_steps import OrderError, Spend
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
from egress.inspect.inspector import AnswerError, AnswerReader, FactValue
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.shares.turns import ENDLESS_TURN, Turn
from egress.types import Headers, Identity

MAX_INTERIM_RESPONSES = 100
"""Interim heads before a response; an upstream could send them for ever."""

LANE_ENDED_CODE = "lane.ended"
"""The code of an exchange that a lane finished without saying why it had not come to its end."""


class Exchange(HandlerSteps):
    """A request and its response, from head to record."""

    __slots__ = ("_body", "_has_body", "_interim", "_is_recorded")

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
        super().__init__(
            policy,
            identity,
            destination,
            placeholders=placeholders,
            needles=needles,
            spend=spend,
            canaries=canaries,
            knows=knows,
        )
        self._begin_handling()
        self._has_body = False
        self._interim = 0
        self._is_recorded = False
        self._body: ResponseBody | None = None

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
        reader = self._answer_reader
        try:
            if reader is not None and not reader.begin(
                response.status, response.headers, has_body=response.has_body
            ):
                reader = self._answer_reader = None
        except AnswerError as error:
            return self._cut(error.code)
        answer = self._cleaned(response, reader)
        if isinstance(answer, AnswerHead):
            answer = self._with_budget(answer)
            self._record.status = answer.status
            self._has_body = response.has_body
            body = self._body = ResponseBody(
                self._effects, self._record.found, response.headers, self._max_down
            )
            if reader is not None:
                body.read(reader, self.account)
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
        last = body.finish()
        if isinstance(last, CutExchange):
            return self._cut(last.code)
        gone = DIGEST_FIELDS if body.is_rewritten else NO_NAMES
        kept = cleaned_trailers(trailers, self._effects, self._needles, self._record.found, gone)
        if isinstance(kept, CutExchange):
            return self._cut(kept.code)
        # Trailers, and new needles since the last piece, may have found a secret too.
        if must_withhold(self._effects, self._record.found):
            return self._cut("response.withheld")
        self._stage = ExchangeStage.DONE
        return last + body.end_message(), kept

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
        request, head, decision, noted = self._request, self._head, self._decision, self._record
        # Every text is judged by what is known now: a secret may have got its value since the head came.
        check = SecretCheck(self._needles, self._canaries, self._knows)
        target = decision.target if decision else ""
        return ExchangeRecord(
            identity=self._identity,
            destination=self._destination,
            method=shown_method(head.method if head else request.method, self._canaries) if request else "",
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
            facts=self._facts(check, sent=sent, is_end_proven=is_end_proven),
            trace=read_trace_parent(request.headers) if request else None,
        )

    # Inside

    def _with_budget(self, answer: AnswerHead) -> AnswerHead:
        """Return the head with what is left of the budgets of a call."""
        if self.budgets is None or self._reservation is None:
            return answer
        left = self.budgets.header(self._reservation)
        return replace(answer, headers=(*answer.headers, ("egress-budget", left))) if left else answer

    def _facts(self, check: SecretCheck, *, sent: bool, is_end_proven: bool) -> Mapping[str, FactValue]:
        facts = self._record.facts(sent=sent, is_end_proven=is_end_proven)
        if self.budgets is not None and self._reservation is not None and self._meter is not None:
            facts = {**facts, **self.budgets.settle(self._reservation, self._meter.found, is_sent=sent)}
        if self._reading is None:
            return facts
        found = self._reading.log(self._decision)
        if self._answer_reader is not None:
            found = {**found, **self._answer_reader.log()}
        said = {
            name: HIDDEN_TEXT if isinstance(value, str) and check.holds(value) else value
            for name, value in found.items()
        }
        return {**facts, **said}

    def _cleaned(self, response: Response, reader: AnswerReader | None = None) -> AnswerHead | CutExchange:
        answer = cleaned_answer(
            response,
            self._destination,
            self._effects,
            self._needles,
            self._record.found,
            injected=bool(self._record.injected),
            max_bytes=self._max_down,
            reader=reader,
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
