"""Read a request that somebody asks about, as the proxy would read it from the wire."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from egress.errors import UsageError
from egress.rules.compile.rule_tests import parse_url
from egress.rules.language.report import MeaningError
from egress.types import Head

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def asked_head(
    method: str, url: str, headers: Iterable[tuple[str, str]] = (), *, websocket: bool = False
) -> Head:
    """Return the head of a request. Raises `UsageError` for one that no client can send.

    The proxy decides on raw bytes, so the answer has to depend on the same ones.
    """
    try:
        where = parse_url(url if "://" in url else f"https://{url}")
    except MeaningError as error:
        raise UsageError(error.message, error.hint) from None
    pairs = tuple((_on_the_wire(name.lower()), _on_the_wire(value)) for name, value in _checked(headers))
    return Head(method, where.scheme, where.host, where.port, _on_the_wire(where.target), pairs, websocket)


def _checked(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        # A line break would smuggle in a second header.
        if any(character < " " or character == "\x7f" for character in name + value):
            raise UsageError("a header contains a control character", "a header is one line of text")
        # The URL names the host already: a second name could disagree, and no answer would be right.
        if name.strip().lower() == "host":
            raise UsageError("a header cannot name Host", "the URL is the destination")
        if not _TOKEN.fullmatch(name.strip()):
            raise UsageError("a header needs NAME: VALUE", "a header name consists of letters, digits and -")
        yield name.strip(), value.strip()


def _on_the_wire(text: str) -> str:
    """Encode input as on the wire: one character a byte. Invalid UTF-8 stays as it is."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")
