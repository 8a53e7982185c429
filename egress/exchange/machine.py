"""The order of the steps of one exchange.

Theory of operation. The stages follow each other and never go back:

    HEAD       `begin`     identity and destination are fixed; request checks, rules, limits
    SECRETS    `provide`   the values that the decision needs; injection
    SENT       `request_data`, `informational`, `respond`
    BODY       `data`, `trailers`
    DONE       `finish`    the one record

A step out of order raises `OrderError`: a lane that loses track is cut off, never waved through. A
denial at any stage leads to DONE. The exchange keeps the policy it began with, whatever is reloaded
meanwhile. There is no clock: `now` comes in once, with the head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum

from egress.credentials import NO_PLACEHOLDERS, Applied, Placeholders, apply
from egress.errors import CODES, EgressError
from egress.exchange import response as responses
from egress.exchange.record import Record
from egress.exchange.request import head_of
from egress.exchange.values import Answer, Cut, Deny, Destination, NeedSecrets, Request, Response, Send
from egress.rules import paths
from egress.rules.decide import decide
from egress.rules.limits import Taken
from egress.rules.policy import Policy
from egress.scrub import Needles, Scrubber
from egress.types import (
    NO_EFFECTS,
    Decision,
    Effects,
    Head,
    Headers,
    Identity,
    InjectPlaceholder,
    Limit,
    Scrub,
    Secret,
    Slot,
    Verdict,
)

NO_NEEDLES = Needles({})

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
    DONE = "done"


class Exchange:
    """One request and its response, from head to record."""

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        destination: Destination,
        *,
        placeholders: Placeholders = NO_PLACEHOLDERS,
        needles: Needles = NO_NEEDLES,
        spend: Spend | None = None,
    ) -> None:
        """`needles` are those of every secret bound to the destination whose value is known by now."""
        self._policy = policy
        self._identity = identity
        self._destination = destination
        self._placeholders = placeholders
        self._spend = spend
        self._stage = Stage.HEAD
        self._request: Request | None = None
        self._head: Head | None = None
        self._decision: Decision | None = None
        self._code = ""
        self._status = 0
        self._written: tuple[tuple[str, Slot], ...] = ()
        self._replaced = False
        self._needles = needles
        self._scrubber: Scrubber | None = None
        self._found: Counter[str] = Counter()
        self._up = 0
        self._down = 0
        self._most_up: int | None = None
        self._most_down: int | None = None
        self._is_denied = False
        self._is_recorded = False

    # The request

    def begin(self, request: Request, now: int) -> Deny | NeedSecrets | Send:
        """Check and decide a request head; what comes next is in the answer."""
        self._expect(Stage.HEAD)
        self._request = request
        head = head_of(request, self._destination)
        if isinstance(head, Deny):
            return self._deny(head.code)
        decision = decide(self._policy, self._identity, head, now)
        self._decision = decision
        if not decision.allowed:
            return self._deny(decision.code)
        limits = decision.effects.limits
        if self._spend is not None and limits:
            taken = self._spend(limits)
            if not taken.allowed:
                return self._deny("limit.requests", taken.retry_after)
        self._most_up = responses.smallest(limit.request_body for limit in limits)
        self._most_down = responses.smallest(limit.response_body for limit in limits)
        if _stated_length(head.headers) > self._bound(self._most_up):
            return self._deny("limit.request_body")
        self._head = _forwarded(head, decision.target)
        self._stage = Stage.SECRETS
        wanted = self._wanted()
        return NeedSecrets(wanted) if wanted else self.provide({}, self._needles)

    def provide(self, secrets: Mapping[str, Secret], needles: Needles) -> Deny | Send:
        """Inject. `needles` as in the constructor, now with the values in `secrets` among them.

        A secret that could not be had is simply missing from `secrets`, and denies the request.
        """
        self._expect(Stage.SECRETS)
        if self._head is None:  # pragma: no cover - the stage says so
            raise OrderError("there is no request to inject into")
        effects = self._effects
        applied = apply(
            self._head, effects.needs, secrets, self._placeholders, misplaced_pass=effects.misplaced_pass
        )
        if not isinstance(applied, Applied):
            return self._deny(applied.code)
        self._written, self._replaced = applied.written, applied.replaced
        self._needles = needles
        if self._written and effects.scrub is not Scrub.OFF and not len(needles):
            # Without needles a secret that comes back would pass: that is a lane's bug.
            return self._deny("internal")
        self._stage = Stage.SENT
        return Send(_asking_for_plain(applied.head) if self._searches else applied.head)

    def request_data(self, chunk: bytes) -> Cut | None:
        """Count a piece of request body; a cut when it is more than the rules allow."""
        self._expect(Stage.SENT, Stage.BODY)
        self._up += len(chunk)
        return self._cut("limit.request_body") if self._up > self._bound(self._most_up) else None

    # The response

    def informational(self, response: Response) -> Answer | Cut:
        """An interim head (1xx): cleaned like a final one, and nothing follows from it."""
        self._expect(Stage.SENT)
        return self._cleaned(response)

    def respond(self, response: Response) -> Answer | Cut:
        """The final head of the upstream."""
        self._expect(Stage.SENT)
        if response.status == 101 and not (self._head is not None and self._head.websocket):
            return self._cut("upstream.malformed")
        answer = self._cleaned(response)
        if isinstance(answer, Answer):
            self._status = answer.status
            self._stage = Stage.BODY
            self._scrubber = Scrubber(self._needles) if self._searches else None
        return answer

    def data(self, chunk: bytes) -> list[bytes] | Cut:
        """A piece of response body, as the pieces that may go out now."""
        self._expect(Stage.BODY)
        self._down += len(chunk)
        if self._down > self._bound(self._most_down):
            return self._cut("limit.response_body")
        if self._scrubber is None:
            return [chunk] if chunk else []
        return self._unless_blocked(self._scrubber.feed(chunk))

    def end(self, trailers: Headers = ()) -> tuple[list[bytes], Headers] | Cut:
        """The end of the response: what was held back, and the trailers."""
        self._expect(Stage.BODY)
        chunks = self._unless_blocked(self._scrubber.finish()) if self._scrubber is not None else []
        if isinstance(chunks, Cut):
            return chunks
        _, cleaned = responses.scrub_fields("", trailers, self._effects, self._needles, self._found)
        if self._effects.scrub is Scrub.BLOCK and self._found:
            return self._cut("response.withheld")
        self._stage = Stage.DONE
        return chunks, tuple(field for field in cleaned if not field[0].startswith(responses.OWN_PREFIX))

    def scrubber(self) -> Scrubber | None:
        """A scrubber of its own for each direction of frames, after an upgrade; None when none is due."""
        self._expect(Stage.BODY)
        return Scrubber(self._needles) if self._searches else None

    # The record

    def abort(self, code: str) -> None:
        """The lane could not go on (a peer left, a limit of its own): note why."""
        if self._stage is not Stage.DONE:
            self._over(code)

    def finish(self) -> Record:
        """The one record of this exchange. An exchange that is not over is recorded as cut."""
        if self._is_recorded:
            raise OrderError("an exchange is recorded once")
        self._is_recorded = True
        if self._stage is not Stage.DONE:
            self._over("internal" if self._stage is Stage.HEAD else "lane.ended")
        decision = self._decision
        found = self._found + (self._scrubber.found if self._scrubber is not None else Counter())
        return Record(
            identity=self._identity,
            destination=self._destination,
            method=self._request.method if self._request else "",
            path=self._path(),
            verdict=Verdict.DENY if decision is None or self._is_denied else decision.verdict,
            code=self._code or (decision.code if decision else "internal"),
            rule=decision.rule if decision else None,
            place=decision.place if decision else None,
            observed=decision.observed if decision else False,
            status=self._status,
            injected=self._written,
            replaced=self._replaced,
            scrubbed=tuple(sorted(found.items())),
            bytes_up=self._up,
            bytes_down=self._down,
            policy=self._policy.digest,
        )

    # Inside

    @property
    def _effects(self) -> Effects:
        return self._decision.effects if self._decision else NO_EFFECTS

    @property
    def _searches(self) -> bool:
        return len(self._needles) > 0 and self._effects.scrub is not Scrub.OFF

    def _wanted(self) -> tuple[str, ...]:
        """The secrets this very request needs: a placeholder's only when the stand-in is there."""
        if self._head is None:  # pragma: no cover - the stage says so
            return ()
        has_stand_in = self._placeholders.is_in(self._head)
        needs = self._effects.needs
        return tuple(
            dict.fromkeys(n.secret for n in needs if has_stand_in or not isinstance(n, InjectPlaceholder))
        )

    def _cleaned(self, response: Response) -> Answer | Cut:
        answer = responses.answer_of(
            response,
            self._destination,
            self._effects,
            self._needles,
            self._found,
            injected=bool(self._written),
        )
        return self._cut(answer.code) if isinstance(answer, Cut) else answer

    def _unless_blocked(self, chunks: list[bytes]) -> list[bytes] | Cut:
        if self._effects.scrub is Scrub.BLOCK and self._scrubber is not None and self._scrubber.hits:
            return self._cut("response.withheld")
        return chunks

    def _path(self) -> str:
        """The canonical path, or the raw one of a request that got none. Never the query."""
        target = self._decision.target if self._decision else ""
        if not target and self._request is not None:
            target = self._request.target
        return paths.split(target)[0][: paths.MAX_PATH]

    def _bound(self, most: int | None) -> float:
        return float("inf") if most is None else most

    def _deny(self, code: str, retry_after: int = 0) -> Deny:
        self._is_denied = True
        self._over(code)
        return Deny(code, retry_after)

    def _cut(self, code: str) -> Cut:
        self._over(code)
        return Cut(code)

    def _over(self, code: str) -> None:
        self._code = code
        self._stage = Stage.DONE
        if not self._status and code in CODES:
            self._status = CODES[code].status

    def _expect(self, *stages: Stage) -> None:
        if self._stage not in stages:
            found = self._stage.value
            self._over("internal")
            raise OrderError(f"this step does not belong to the stage `{found}` of an exchange")


def _forwarded(head: Head, target: str) -> Head:
    """The head with the target that was matched."""
    return Head(head.method, head.scheme, head.host, head.port, target, head.headers, head.websocket)


def _asking_for_plain(head: Head) -> Head:
    """Ask for an uncoded answer, which can be searched; the head keeps its class and its secrecy."""
    kept = [field for field in head.headers if field[0] not in ("accept-encoding", "grpc-accept-encoding")]
    headers = (*kept, ("accept-encoding", "identity"))
    return type(head)(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)


def _stated_length(headers: Headers) -> int:
    stated = next((value for name, value in headers if name == "content-length"), "")
    return int(stated) if stated.isdigit() and len(stated) < 20 else 0
