"""Exchanges cut out of their bytes, without parsing each: most are like one that was seen before.

What rules look at comes back in line after line, but for the path. So the bytes of all that are looked up,
and parsed when they are met for the first time. A line that has another form in any way, and every path
that is not plain text, is left to whoever parses the whole line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from egress.review import fast_parse
from egress.review.drafting.observation import Observation, observe

KEPT = 16_384
_H2 = b',"alpn":"h2"'

type Pieces = tuple[bytes, bytes, bytes, bytes]
"""Who, where to, what came of it, and HTTP/2 or not; as they stand in a line."""


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeKind:
    """What many lines have in common. Two may say the same: each is equal to itself alone."""

    seen: Observation
    """Without a path."""


class ParsedExchange(NamedTuple):
    """What rules look at in one exchange."""

    kind: ExchangeKind
    path: str
    id: str


class ExchangeParser:
    """Cuts lines up, and remembers the kinds that it met."""

    def __init__(self) -> None:
        self._kinds: dict[Pieces, ExchangeKind | None] = {}
        self._forms: dict[fast_parse.Form, ExchangeKind | None] = {}

    def cut(self, line: bytes) -> ParsedExchange | None:
        """What is in a line, given without its end; None where it has to be parsed."""
        found = fast_parse.exchange(line)
        form = found[0] if found else None
        if found is None or not isinstance(form, fast_parse.Form):
            return None
        try:
            kind = self._forms[form] if form in self._forms else self._met(form)
            return ParsedExchange(kind, _plain(found[8]), _id(line)) if kind else None
        except ValueError:
            return None

    def _met(self, form: fast_parse.Form) -> ExchangeKind | None:
        """The kind of a form that is met for the first time. Raises `ValueError` for an unusual one."""
        fast_parse.fields_of(form)
        profile = form.who[form.who.index(b',"profile":') : form.who.index(b',"listener":')]
        rest = form.verdict[: form.verdict.index(b',"replaced":')]
        if len(self._forms) >= KEPT:
            self._forms.clear()
        kind = self._forms[form] = self._kind((profile, form.where, rest, _H2 if _H2 in form.policy else b""))
        return kind

    def _kind(self, key: Pieces) -> ExchangeKind | None:
        try:
            return self._kinds[key]
        except KeyError:
            pass
        # A sandbox chooses what is in a line, so how much is remembered is bounded.
        if len(self._kinds) >= KEPT:
            self._kinds.clear()
        kind = self._kinds[key] = _made(*key)
        return kind


def _made(profile: bytes, where: bytes, rest: bytes, alpn: bytes) -> ExchangeKind | None:
    """The pieces as they stand in a line, around a path that is empty. Raises `ValueError` for none."""
    found = observe(json.loads(b'{"event":"exchange"%b,"":"%b%b%b}' % (profile, where, rest, alpn)))
    return ExchangeKind(found) if found else None


def _id(line: bytes) -> str:
    """The id of the request, else of the connection. Raises `ValueError`."""
    for name in (b',"request":"', b',"connection":"'):
        at = line.index(name) + len(name)
        if found := line[at : line.index(b'"', at)]:
            return _plain(found)
    return ""


def _plain(text: bytes) -> str:
    """A text as it is read. Raises `ValueError` for what JSON would not take as it stands."""
    found = text.decode("ascii")
    if not found.isprintable():
        raise ValueError
    return found
