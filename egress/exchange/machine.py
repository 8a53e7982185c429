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
no way to a `Send` but through every check before it.

The exchange keeps the policy it began with, whatever is reloaded meanwhile. What it looks for it does not
keep: a secret may get its value, or another one, while an answer runs, and come back in that answer. So
`learn` may come between any two steps, and an answer is searched where any secret may come back, known by
then or not. There is no clock: `now` comes in once, with the head. There is no step for trailers of a
request: they would come after the decision, so they do not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from egress.credentials import NO_PLACEHOLDERS, Applied, Placeholders, Watch, apply
from egress.errors import EgressError, WireError
from egress.exchange.coding import Coding, asking_for_plain, coding_of
from egress.exchange.decode import CodingError, Decoder
from egress.exchange.envelopes import Envelopes, has_envelopes
from egress.exchange.record import Account, Record, shown_method, shown_path
from egress.exchange.request import forwarded, head_of
from egress.exchange.response import DIGESTS, NO_NAMES, answer_of, holds, searches, trailers_of
from egress.exchange.values import Answer, Cut, Deny, Destination, NeedSecrets, Request, Response, Send
from egress.exchange.written import finds
from egress.rules.decide import decide
from egress.rules.limits import Taken, smallest
from egress.rules.policy import Policy
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

MOST_INTERIM = 100
"""How many interim heads may stand before a response; an upstream could send them for ever."""

LEFT = "lane.ended"
"""The code of an exchange that a lane finished without saying why it had not come to its end."""

Spend = Callable[[tuple[Limit, ...]], Taken]
"""Counts a request against the limits of its decision; the state is the caller's."""


class OrderError(EgressError):
    """A step was asked for in the wrong stage: a bug in a lane. The exchange is over."""

    code = "internal"


class Stage(Enum):
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
        watch: Watch | None = None,
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
        self._stage = Stage.HEAD
        self._request: Request | None = None
        self._head: Head | None = None
        self._decision: Decision | None = None
        self._effects = NO_EFFECTS
        self._searches = False
        self._scrubber: Scrubber | None = None
        self._decoder: Decoder | None = None
        self._envelopes: Envelopes | None = None
        self._decoded_length = 0
        self._has_body = False
        self._interim = 0
        self._most_up: int | None = None
        self._most_down: int | None = None
        self._account = Account()
        self._is_recorded = False
        self._is_unreadable = False
        self._told: Headers = ()

    def would_begin(self, policy: Policy, now: int) -> bool:
        """Whether this policy would let the exchange begin now, with the same secrets.

        For rules that have changed while it runs: it asks, and changes nothing.
        """
        if self._head is None or self._decision is None:
            return self._stage is Stage.HEAD
        decision = decide(policy, self._identity, self._head, now)
        kept = {need.secret for need in decision.effects.needs}
        return decision.allowed and all(need.secret in kept for need in self._effects.needs)

    # The request

    def begin(self, request: Request, now: int) -> Deny | NeedSecrets | Send:
        """Check and decide a request head; what comes next is in the answer."""
        self._enter(Stage.HEAD)
        self._request = request
        read = head_of(request, self._destination)
        if isinstance(read, Deny):
            return self._deny(read.code)
        head, length = read
        if self._watch is not None and (seen := self._watch.head(head)):
            return self._deny(self._account.blame(seen))
        self._decision = decision = decide(self._policy, self._identity, head, now)
        if not decision.allowed:
            return self._deny(decision.code)
        self._effects = decision.effects
        limits = decision.effects.limits
        if limits:
            self._most_up = smallest(limit.request_body for limit in limits)
            self._most_down = smallest(limit.response_body for limit in limits)
        if self._most_up is not None and length > self._most_up:
            return self._deny("limit.request_body")
        if self._spend is not None and limits:
            taken = self._spend(limits)
            if not taken.allowed:
                return self._deny("limit.requests", taken.retry_after)
        self._head = forwarded(head, decision.target)
        wanted = self._wanted(self._head)
        self._stage = Stage.SECRETS
        if not wanted:
            return self.provide({}, self._needles)
        return NeedSecrets(wanted, unscrubbed=decision.effects.scrub is Scrub.OFF)

    def provide(self, secrets: Mapping[str, Secret], needles: Needles | None) -> Deny | Send:
        """Inject. `needles` as in the constructor, now with the values in `secrets` among them.

        A secret that could not be had is simply missing from `secrets`, and denies the request. So
        do needles that do not find in the head to be sent what was written there: then nothing could
        be found in the response either.
        """
        self._enter(Stage.SECRETS)
        for name, secret in secrets.items():
            if secret.name != name:
                return self._deny("internal")
        if self._head is None:
            return self._deny("internal")
        effects = self._effects
        self._needles = needles
        self._searches = searches(effects, needles)
        applied = apply(
            self._head,
            effects.needs,
            secrets,
            self._placeholders,
            misplaced_pass=effects.misplaced_pass,
            closing=asking_for_plain if self._searches else None,
        )
        if not isinstance(applied, Applied):
            return self._deny(applied.code)
        if effects.scrub is not Scrub.OFF and not finds(needles, applied.written, applied.head):
            return self._deny("internal")
        account = self._account
        account.injected, account.replaced, account.is_sent = applied.written, applied.replaced, True
        self._stage = Stage.SENT
        return Send(applied.head)

    def request_data(self, chunk: bytes, *, aside: bool = False) -> Cut | None:
        """Count a piece of request body, or of a frame (`aside`: of a control frame); a cut when too much."""
        stage = self._enter(Stage.SENT, Stage.BODY, Stage.FRAMES)
        if self._most_up is not None and self._account.up + len(chunk) > self._most_up:
            return self._cut("limit.request_body")
        if self._watch is not None and (seen := self._watch.piece(chunk, aside=aside)):
            return self._cut(self._account.blame(seen))
        self._account.up += len(chunk)
        self._stage = stage
        return None

    # The response

    def learn(self, needles: Needles | None) -> None:
        """Look for these in all that is still to come; in any stage, and cheap when they are the same.

        Where nothing was searched yet and the answer is under way in a coding, it cannot be searched any
        more: the next piece of it cuts the exchange.
        """
        if needles is self._needles or needles is None:
            return
        self._needles = needles
        self._searches = searches(self._effects, needles)
        if self._scrubber is not None:
            self._scrubber.learn(needles)
        elif self._searches and self._stage in (Stage.BODY, Stage.FRAMES):
            self._is_unreadable = coding_of(self._told) is not Coding.PLAIN
            self._scrubber = None if self._is_unreadable else Scrubber(needles, self._account.found)

    def informational(self, response: Response) -> Answer | Cut:
        """An interim head (1xx): cleaned like a final one, and nothing follows from it."""
        self._enter(Stage.SENT)
        self._interim += 1
        if not 100 <= response.status < 200 or response.status == 101 or self._interim > MOST_INTERIM:
            return self._cut("upstream.malformed")
        answer = self._cleaned(Response(response.status, response.reason, response.headers, has_body=False))
        if isinstance(answer, Answer):
            self._stage = Stage.SENT
        return answer

    def respond(self, response: Response) -> Answer | Cut:
        """The final head of the upstream."""
        self._enter(Stage.SENT)
        switches = response.status == 101 and self._head is not None and self._head.websocket
        if not switches and not 200 <= response.status < 600:
            return self._cut("upstream.malformed")
        answer = self._cleaned(response)
        if isinstance(answer, Answer):
            self._account.status = answer.status
            self._has_body = response.has_body
            self._told = response.headers
            needles = self._needles if self._searches else None
            self._scrubber = None if needles is None else Scrubber(needles, self._account.found)
            self._decoder = Decoder(answer.coding) if answer.decoded else None
            is_framed = self._searches and not answer.decoded and has_envelopes(answer.headers)
            self._envelopes = Envelopes() if is_framed else None
            self._stage = Stage.FRAMES if switches else Stage.BODY
        return answer

    def data(self, chunk: bytes) -> list[bytes] | Cut:
        """A piece of response body, as the pieces that may go out now."""
        self._enter(Stage.BODY)
        if chunk and not self._has_body:
            return self._cut("upstream.malformed")
        pieces = self._passed(chunk)
        if not isinstance(pieces, Cut):
            self._stage = Stage.BODY
        return pieces

    def message(self, chunk: bytes, *, ends: bool) -> list[bytes] | Cut:
        """A piece of a WebSocket message from the upstream, as the pieces that may go out now.

        With the end of a message comes all of it that was held back. Limits count over all messages.
        """
        self._enter(Stage.FRAMES)
        pieces = self._passed(chunk)
        if isinstance(pieces, Cut):
            return pieces
        if ends and self._scrubber is not None:
            pieces += self._scrubber.finish()
        self._stage = Stage.FRAMES
        return pieces

    def control(self, payload: bytes) -> bytes | Cut:
        """The payload of a ping or pong, or the reason of a close, as it may go out; never split.

        It may stand in the middle of a message, and is searched on its own.
        """
        self._enter(Stage.FRAMES)
        if self._is_too_much(payload):
            return self._cut("limit.response_body")
        if self._searches and self._needles is not None:
            masked = self._needles.mask(payload)
            self._account.found.update(masked.found)
            if masked.hits and self._effects.scrub is Scrub.BLOCK:
                return self._cut("response.withheld")
            payload = masked.data
        self._account.down += len(payload)
        self._stage = Stage.FRAMES
        return payload

    def end(self, trailers: Headers = ()) -> tuple[list[bytes], Headers] | Cut:
        """The end of the response: what was held back, and the trailers."""
        self._enter(Stage.BODY, Stage.FRAMES)
        gone = NO_NAMES
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except CodingError as fault:
                return self._cut(fault.code)
            gone = DIGESTS
        kept = trailers_of(trailers, self._effects, self._needles, self._account.found, gone)
        if isinstance(kept, Cut):
            return self._cut(kept.code)
        # What was held back may have turned out to be one after the last piece had come.
        if self._effects.scrub is Scrub.BLOCK and self._account.found:
            return self._cut("response.withheld")
        rest = [] if self._scrubber is None else self._scrubber.finish()
        self._stage = Stage.DONE
        return rest, kept

    # The record

    def abort(self, code: str) -> None:
        """The lane could not go on (a peer left, a limit of its own): note why."""
        if self._stage is not Stage.DONE:
            self._over("internal" if self._stage is Stage.BROKEN else code or LEFT)

    def finish(self, *, sent: bool = True) -> Record:
        """The one record of this exchange. An exchange that is not over is recorded as cut.

        `sent` is false where the lane never came to send what it was handed: then no secret has left.
        """
        if self._is_recorded:
            raise OrderError("an exchange is recorded once")
        self._is_recorded = True
        self.abort("internal" if self._stage is Stage.HEAD else LEFT)
        request, decision, account = self._request, self._decision, self._account
        return Record(
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

    def _cleaned(self, response: Response) -> Answer | Cut:
        account = self._account
        answer = answer_of(
            response,
            self._destination,
            self._effects,
            self._needles,
            account.found,
            injected=bool(account.injected),
            most=self._most_down,
        )
        return self._cut(answer.code) if isinstance(answer, Cut) else answer

    def _passed(self, chunk: bytes) -> list[bytes] | Cut:
        if self._is_too_much(chunk):
            return self._cut("limit.response_body")
        self._account.down += len(chunk)
        if self._decoder is not None:
            return self._decoded(self._decoder, chunk)
        if self._envelopes is not None:
            return self._framed(self._envelopes, chunk)
        return self._searched(chunk)

    def _framed(self, envelopes: Envelopes, chunk: bytes) -> list[bytes] | Cut:
        """A piece of gRPC, searched. With the end of a message comes all of it that was held back."""
        passed: list[bytes] = []
        try:
            for piece, ends in envelopes.split(chunk):
                pieces = self._searched(piece)
                if isinstance(pieces, Cut):
                    return pieces
                passed += pieces
                if ends and self._scrubber is not None:
                    passed += self._scrubber.finish()
        except WireError:
            return self._cut("upstream.malformed")
        return passed

    def _decoded(self, decoder: Decoder, chunk: bytes) -> list[bytes] | Cut:
        """What a coded chunk holds, searched. The limit is for what comes and for what it decodes to."""
        passed: list[bytes] = []
        try:
            for piece in decoder.feed(chunk):
                self._decoded_length += len(piece)
                if self._most_down is not None and self._decoded_length > self._most_down:
                    return self._cut("limit.response_body")
                pieces = self._searched(piece)
                if isinstance(pieces, Cut):
                    return pieces
                passed += pieces
        except CodingError as fault:
            return self._cut(fault.code)
        return passed

    def _searched(self, chunk: bytes) -> list[bytes] | Cut:
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
        return needles.mask_text(path).text if needles is not None and holds(needles, path) else path

    def _deny(self, code: str, retry_after: int = 0) -> Deny:
        self._over(code)
        return Deny(code, retry_after)

    def _cut(self, code: str) -> Cut:
        self._over(code)
        return Cut(code)

    def _over(self, code: str) -> None:
        self._stage = Stage.DONE
        self._account.close(code)

    def _enter(self, *stages: Stage) -> Stage:
        """Begin a step. Until it sets the stage that follows, the exchange counts as broken."""
        stage = self._stage
        if stage not in stages:
            self._over("internal")
            raise OrderError(f"this step does not belong to the stage `{stage.value}` of an exchange")
        self._stage = Stage.BROKEN
        return stage
