"""An exchange on a connection whose host was denied: whatever is asked for, the answer is that denial.

It never comes to a decision by the rules, to a secret or to an upstream: `begin` is its first and last step.
"""

from __future__ import annotations

from typing import override

from egress.credentials import CanaryScan
from egress.exchange.exchange import Exchange
from egress.exchange.messages import DenyRequest, Destination, ExchangeStage, Request
from egress.exchange.request import decidable_head
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.types import Decision, HostDecision, Identity, Verdict


class DeniedExchange(Exchange):
    """A request that is denied as its connection was."""

    __slots__ = ("_denial",)

    def __init__(
        self,
        denial: HostDecision,
        policy: Policy,
        identity: Identity,
        destination: Destination,
        *,
        needles: Needles | None = None,
        canaries: CanaryScan | None = None,
    ) -> None:
        """`needles` mask secrets in the recorded path, as for any request to this destination."""
        super().__init__(policy, identity, destination, needles=needles, canaries=canaries)
        self._denial = denial

    @override
    def begin(self, request: Request, now: int) -> DenyRequest:
        """Deny the request. A canary in it comes first: a planted value is reported whatever else holds."""
        self._enter(ExchangeStage.HEAD)
        self._request = request
        read = decidable_head(request, self._destination)
        if not isinstance(read, DenyRequest) and self._canaries is not None:
            seen = self._canaries.scan_head(read[0])
            if seen is not None:
                return self._deny(self._record.note_canary(seen))
        # Whatever is wrong with the request beside it, its host is denied: that is the reason to be told.
        denial = self._denial
        self._decision = Decision(
            Verdict.DENY, denial.code, rule=denial.rule, entry=denial.entry, place=denial.place
        )
        return self._deny(denial.code)
