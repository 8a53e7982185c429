"""Results of writing credentials: a head that carries them, or a refusal.

Each of these values may reach a log line or a traceback by accident, so a value that holds a secret does not
show it, and cannot be pickled or copied. A refusal holds constant sentences and names from the rules, never a
secret and never a byte that the sandbox sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Never

from egress.types import Head, Headers, Slot


class Unprintable:
    """Hides the content of a value that holds a secret from `repr`, `str`, `format` and `pickle`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, not shown>"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} must not be pickled or copied")


class CredentialedHead(Unprintable, Head):
    """A request head that contains credentials."""

    __slots__ = ()


@dataclass(slots=True, repr=False, eq=False)
class HeadEdit(Unprintable):
    """A target and headers after a credential was written, and whether its slot was occupied before."""

    target: str
    headers: Headers
    occupied: bool


@dataclass(frozen=True, slots=True)
class AppliedHead:
    """A head that is ready to send.

    `written` lists secret name and slot for the record. `replaced` says that a value the sandbox itself sent
    in such a slot was removed; a swapped placeholder does not count. `stripped` are the other slots that held
    a value and were emptied. If nothing was changed, `head` is the same object that came in.
    """

    head: Head = field(repr=False)
    written: tuple[tuple[str, Slot], ...] = ()
    replaced: bool = False
    stripped: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class CredentialRefusal:
    """A request that must not be sent.

    `code` is one of `errors.CODES`; `why` is a constant sentence for the operator. A `slot` without a name
    says where a placeholder was seen: names that the sandbox chose are not repeated.
    """

    code: str
    why: str
    secret: str | None = None
    slot: Slot | None = None
