"""Shapes: what many lines have in common, kept once.

A shape is everything in a line that a filter or a total asks for and that comes back in line after line:
who, where to, by which rule, with which secret, what came of it. An index then holds a number for each
line instead of all that, and a filter is asked of some hundred shapes instead of millions of lines.

What is different in each line, such as paths, ids and durations, is no part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from egress.review.entry import secrets_of, verdict_of, whole

APART = "\x1f"
"""Stands around the name of each secret, so that a whole name can be looked for."""


class LineShape(NamedTuple):
    """What a filter can ask for, but for the time and the text."""

    event: str
    sandbox: str
    profile: str
    host: str
    method: str
    status: int
    verdict: str
    code: str
    rule: str
    place: str
    policy: str
    secrets: str
    """Names, each between two marks; empty for none."""
    observed: int
    scrubbed: str
    """Names of secrets that were found in the answer, in the same form."""

    @property
    def key(self) -> bytes:
        """The same for equal shapes, and for no others."""
        return hashlib.blake2b(json.dumps(self).encode("ascii"), digest_size=16).digest()

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts, each once."""
        found = (getattr(self, name) for name in TEXTS)
        return tuple(dict.fromkeys(part for text in found if text for part in unmarked(text)))


TEXTS = (
    "event",
    "sandbox",
    "profile",
    "host",
    "method",
    "code",
    "rule",
    "place",
    "policy",
    "secrets",
    "scrubbed",
)
"""The columns that a search looks through."""


def shape_of(fields: Mapping[str, object]) -> LineShape:
    """The shape of a line's fields, whatever these are."""
    found = fields.get("scrubbed")
    return LineShape(
        event=_text(fields, "event"),
        sandbox=_text(fields, "sandbox"),
        profile=_text(fields, "profile"),
        host=_text(fields, "host"),
        method=_text(fields, "method"),
        status=whole(fields.get("status")),
        verdict=verdict_of(fields),
        code=_text(fields, "code"),
        rule=_text(fields, "rule"),
        place=_text(fields, "place"),
        policy=_text(fields, "policy"),
        secrets=marked(secrets_of(fields)),
        observed=int(fields.get("observed") is True),
        scrubbed=marked(tuple(map(str, found)) if isinstance(found, dict) else ()),
    )


def marked(names: tuple[str, ...]) -> str:
    """Names in one text, each between two marks."""
    return APART + APART.join(name.replace(APART, "") for name in names) + APART if names else ""


def unmarked(text: str) -> tuple[str, ...]:
    """The names in such a text."""
    return tuple(text.strip(APART).split(APART)) if text else ()


def _text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    # A lone surrogate is a text in JSON, and none for a database.
    return found.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(found, str) else ""
