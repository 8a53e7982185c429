"""What a relay asks of its surroundings, and gets at once: nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from egress.credentials import Placeholders, Watch
from egress.exchange import Record, Spend
from egress.rules.policy import Policy
from egress.scrub import Needles
from egress.types import Secret


@dataclass(slots=True)
class Timing:
    """When the stages of one exchange were reached, in monotonic seconds; 0 where one was not."""

    began: float = 0.0
    asked: float = 0.0
    """The secrets it needs were not at hand."""
    sent: float = 0.0
    """Its head went out upstream."""
    answered: float = 0.0
    """The head of the final response came."""
    ended: float = 0.0
    secret_wait: float = 0.0
    """Seconds spent waiting for secrets."""
    wire: int = -1
    """The upstream connection it went over; -1 where it never left."""


class Service(Protocol):
    """The surroundings of one relay: they know the sandbox and the destination."""

    def policy(self) -> Policy:
        """The policy in force now."""
        ...

    def now(self) -> int:
        """UTC in whole seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    def request_id(self) -> str:
        """A new id, for the audit and for the sandbox to quote."""
        ...

    def placeholders(self, policy: Policy) -> Placeholders:
        """The stand-ins that this sandbox holds."""
        ...

    def watch(self, policy: Policy) -> Watch | None:
        """What looks for canaries in one request; None where the policy plants none."""
        ...

    def needles(self, policy: Policy) -> Needles | None:
        """Those of every secret that may come back from the destination, as far as values are known by now.

        None where there is no such secret. Asked again with every piece of an answer: it must be cheap,
        and give the same object for as long as nothing has changed.
        """
        ...

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        """The values of these secrets, if all are at hand; else None, and they have to be fetched.

        Those too short to be searched for count as missing, unless they may go `unscrubbed`.
        """
        ...

    @property
    def spend(self) -> Spend:
        """Counts a request against the limits of its decision."""
        ...

    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> object | None:
        """Note that an exchange is about to be sent, with these secrets.

        None means that no record could be kept of it.
        """
        ...

    def sent(self, ticket: object) -> None:
        """Its first byte goes upstream now."""
        ...

    def finish(self, ticket: object | None, request: str, record: Record, timing: Timing) -> None:
        """Keep the one record of an exchange; `ticket` is what `begin` gave, None if it was not sent."""
        ...
