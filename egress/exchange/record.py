"""What remains of an exchange: one record, written once, for people who review.

Names and numbers only. No query string, no body, no header value, no secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from egress.exchange.values import Destination
from egress.types import Identity, Place, RuleRef, Slot, Verdict


@dataclass(frozen=True, slots=True)
class Record:
    """One exchange as the audit knows it; the sink adds time, sequence and connection facts."""

    identity: Identity
    destination: Destination
    method: str
    path: str
    verdict: Verdict
    code: str
    """Why it was allowed or denied; or why it was cut after it had been allowed."""
    rule: RuleRef | None
    place: Place | None
    observed: bool
    status: int
    """What the sandbox was answered with; 0 when it left before there was an answer."""
    injected: tuple[tuple[str, Slot], ...]
    replaced: bool
    """A value of the sandbox's own was taken out of a slot."""
    scrubbed: tuple[tuple[str, int], ...]
    """How often each secret was found in the response."""
    bytes_up: int
    bytes_down: int
    policy: str
    """The digest of the policy that decided."""
