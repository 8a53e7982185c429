"""Host names: their one canonical spelling, the patterns of the rules, and which pattern is chosen.

Theory of operation. A name is brought to one spelling once, at the edge: by the door for what came
off the wire (`canonical_wire`, ASCII only), by the loader for what people wrote (`canonical`, UTS-46).
Everything behind compares strings. A name that has no canonical spelling is refused, never repaired
further: each repair would be a second reading of the same bytes.

Choosing an entry is a handful of dictionary look-ups, whatever the number of entries: the name
itself, then every suffix from the longest.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from egress.rules.language.report import MeaningError

MAX_NAME_CHARS = 253

_LABELS_PATTERN = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")


class HostError(MeaningError):
    """The text is not a host name; the message says why and never quotes it."""


def canonical_host(text: str) -> str:
    """The one spelling of a host name that a person wrote; raises `HostError`."""
    if not text:
        raise HostError("the host name is empty")
    if not text.isascii():
        text = _to_ascii(text)
    return canonical_wire_host(text)


@lru_cache(maxsize=4096)
def canonical_wire_host(text: str) -> str:
    """The one spelling of a host name that came off the wire; raises `HostError`.

    One trailing dot and upper case are spelling. Anything else that is not `[a-z0-9_-]` in labels
    of 1 to 63 characters is refused, and so is a name whose last label is a number: resolvers read
    `127.1` and `0x7f.1` as addresses.
    """
    name = text.lower() if text.isascii() else text
    name = name.removesuffix(".")
    if len(name) > MAX_NAME_CHARS:
        raise HostError("the host name is longer than 253 characters")
    if not _LABELS_PATTERN.fullmatch(name):
        raise HostError(*_why_not(name))
    last = name.rpartition(".")[2]
    if _NUMERIC_LABEL.fullmatch(last):
        raise HostError("the last part of the host name is a number", "an address goes into `networks:`")
    if "xn--" in name:
        _check_punycode(name)
    return name


def is_canonical(text: str) -> bool:
    """Whether `text` is the one spelling of a host name, of an IPv4 or of an IPv6 address."""
    try:
        return canonical_wire_host(text) == text
    except HostError:
        return is_address(text)


def is_address(text: str) -> bool:
    """Whether `text` is the one spelling of an IP address; a zone such as `%eth0` is none of it."""
    if ":" not in text and not text[-1:].isdigit():
        return False
    try:
        return str(ipaddress.ip_address(text)) == text and "%" not in text
    except ValueError:
        return False


def _why_not(name: str) -> tuple[str, str]:
    if "/" in name or "@" in name:
        return "this is a URL or part of one, not a host name", "write only the name, like api.example.com"
    if name.startswith("[") or _may_be_address(name):
        return "this is an address, not a host name", "an address goes into `networks:`"
    if ":" in name:
        return "a host name has no port in it", "write the port in `ports:`"
    if "*" in name:
        return (
            "an asterisk can only stand for whole first labels",
            'write "*.example.com" or "**.example.com"',
        )
    if ".." in name or name.startswith(".") or not name:
        return "the host name has an empty label", "write a name like api.example.com"
    if any(len(label) > 63 for label in name.split(".")):
        return "a label of the host name is longer than 63 characters", ""
    return (
        "the host name has a character that host names do not have",
        "letters, digits, - and _ in labels, dots between",
    )


def _may_be_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _to_ascii(text: str) -> str:
    import idna  # noqa: PLC0415 - only names that need it pay for its tables

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError, IndexError, OverflowError):
        raise HostError("the host name has no valid international spelling") from None


def _check_punycode(name: str) -> None:
    """An `xn--` label must be exactly what its own Unicode form encodes to."""
    import idna  # noqa: PLC0415 - only names that need it pay for its tables

    for label in name.split("."):
        if not label.startswith("xn--"):
            continue
        try:
            back = idna.alabel(idna.ulabel(label)).decode("ascii")
        except (idna.IDNAError, UnicodeError, IndexError, OverflowError):
            back = ""
        if back != label:
            raise HostError("an xn-- label of the host name does not stand for any name")


# Patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`name`, `*.suffix` (exactly one label more) or `**.suffix` (one or more)."""

    stars: int
    suffix: str

    def __str__(self) -> str:
        return f"{'*' * self.stars}.{self.suffix}" if self.stars else self.suffix

    def matches(self, host: str) -> bool:
        if not self.stars:
            return host == self.suffix
        if not host.endswith("." + self.suffix):
            return False
        return self.stars == 2 or "." not in host[: -len(self.suffix) - 1]

    def covers(self, other: HostPattern) -> bool:
        """Whether every name that `other` matches is matched by this one."""
        if not other.stars:
            return self.matches(other.suffix)
        if not self.stars:
            return False
        if self.stars == 1:
            return other == self
        return other.suffix == self.suffix or other.suffix.endswith("." + self.suffix)


def parse_host_pattern(text: str) -> HostPattern:
    """Read a host key of the rules; raises `HostError`."""
    stars = 2 if text.startswith("**.") else 1 if text.startswith("*.") else 0
    return HostPattern(stars, canonical_host(text[stars + 1 :] if stars else text))


def candidate_patterns(host: str) -> Iterator[HostPattern]:
    """Every pattern that matches `host`, in the order in which entries are chosen."""
    yield HostPattern(0, host)
    stars = 1
    rest = host
    while (dot := rest.find(".")) >= 0:
        rest = rest[dot + 1 :]
        if stars == 1:
            yield HostPattern(1, rest)
            stars = 2
        yield HostPattern(2, rest)
