"""What comes out: a head that carries credentials, or a refusal.

Everything here may end up in a log line or a traceback by accident, so nothing that holds a secret
shows itself, and none of it can be pickled or copied. A refusal holds constant sentences and names
from the rules, never a value and never a byte that the sandbox sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Never

from egress.types import Head, Headers, Slot


class Unprintable:
    """Hide the content of a value that holds a secret from `repr`, `str`, `format` and `pickle`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, not shown>"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} is not to be pickled or copied")


class CredentialedHead(Unprintable, Head):
    """A request head with credentials in it."""

    __slots__ = ()


@dataclass(slots=True, repr=False, eq=False)
class HeadEdit(Unprintable):
    """A target and headers after one credential was written, and whether its slot was taken before."""

    target: str
    headers: Headers
    occupied: bool


@dataclass(frozen=True, slots=True)
class AppliedHead:
    """A head that is ready to send.

    `written` lists secret name and slot for the record. `replaced` says that something the sandbox
    itself sent in such a slot was removed; a placeholder that was swapped does not count as that.
    Where nothing was changed, `head` is the very head that came in.
    """

    head: Head = field(repr=False)
    written: tuple[tuple[str, Slot], ...] = ()
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class CredentialRefusal:
    """A request that must not be sent.

    `code` is one of `errors.CODES`; `why` is a constant sentence for the operator. A `slot` without
    a name says where a placeholder was seen: names that the sandbox chose are not repeated.
    """

    code: str
    why: str
    secret: str | None = None
    slot: Slot | None = None
