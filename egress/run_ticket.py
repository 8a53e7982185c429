"""A ticket: the rights that one run in a sandbox has, from its start to its end.

The ticket is a random text that only the run is told. Everybody else has its digest, so neither a proxy nor
an object of a cluster can give a ticket away. The id is a part of the digest: it names the ticket in records.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from egress.types import Parameters, parameters_of

TICKET_PREFIX: Final = "egress-run-"
"""The beginning of a ticket. Other credentials of a client for its proxy are no tickets."""
SEED_BYTES: Final = 32
MAX_TICKET_SECONDS: Final = 24 * 3600
DEFAULT_TICKET_SECONDS: Final = 3600
MAX_TICKETS: Final = 32
"""Live tickets of one sandbox."""
MAX_STATEMENT_CHARS: Final = 4096
CLOCK_DIFFERENCE: Final = 60
"""Seconds by which the clock of whoever writes a ticket may be ahead of that of whoever reads it."""
_ID_CHARS: Final = 16

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=253)]
_Value = Annotated[str, msgspec.Meta(max_length=1024)]
_Values = Annotated[dict[_Name, _Value], msgspec.Meta(max_length=32)]
_TICKET: Final = re.compile(rf"{TICKET_PREFIX}[A-Za-z0-9_-]{{43}}")
_TICKET_IN_TEXT: Final = re.compile(rf"{TICKET_PREFIX}[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class RunTicket:
    """What is known of a ticket: all but the ticket."""

    digest: str
    expires: int
    """The first second, in UTC, at which it no longer holds."""
    profile: str = ""
    """The profile of the run; empty for that of its sandbox."""
    parameters: Parameters = ()
    """Values for parameters of the rules, which replace those of the sandbox."""

    @property
    def id(self) -> str:
        return ticket_id(self.digest)


def ticket_text(seed: bytes) -> str:
    """Return the ticket of a random seed."""
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a ticket is made of {SEED_BYTES} random bytes")
    return TICKET_PREFIX + base64.urlsafe_b64encode(seed).decode("ascii").rstrip("=")


def is_ticket(text: str) -> bool:
    """Report whether a text has the form of a ticket."""
    return _TICKET.fullmatch(text) is not None


def mask_tickets(text: str) -> str:
    """Return a text for a record without the tickets in it: a client may send them anywhere."""
    return _TICKET_IN_TEXT.sub(TICKET_PREFIX + "...", text) if TICKET_PREFIX in text else text


def ticket_digest(text: str) -> str:
    """Return the digest of a ticket. A ticket is long and random, so a single hash is enough."""
    return hashlib.sha256(text.encode()).hexdigest()


def ticket_id(digest: str) -> str:
    """Return the name of a ticket in records, by its digest."""
    return f"t-{digest[:_ID_CHARS]}"


class TicketStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket as it stands in an annotation."""

    digest: Digest
    pod: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """The UID of the pod that it holds for: another one under the same claim has no use of it."""
    expires: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    profile: _Name = ""
    params: _Values = msgspec.field(default_factory=dict)
    version: Literal[1] = 1

    @property
    def ticket(self) -> RunTicket:
        return RunTicket(self.digest, self.expires, self.profile, parameters_of(self.params))


def write_statement(ticket: RunTicket, pod_uid: str) -> str:
    """Return the text of an annotation for a ticket."""
    made = TicketStatement(ticket.digest, pod_uid, ticket.expires, ticket.profile, dict(ticket.parameters))
    return msgspec.json.encode(made).decode()


def read_statement(text: str) -> TicketStatement | None:
    """Read the text of an annotation; None for one that is no statement, and so no ticket."""
    return _parsed(text) if len(text) <= MAX_STATEMENT_CHARS else None


def is_spent(text: str, now: float) -> bool:
    """Report whether an annotation is a ticket whose time was over by then."""
    statement = read_statement(text)
    return statement is not None and statement.expires <= now


@lru_cache(maxsize=4096)
def _parsed(text: str) -> TicketStatement | None:
    # Kept: a gateway reads the statements of a claim again for each of its runs.
    try:
        return msgspec.json.decode(text, type=TicketStatement)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
