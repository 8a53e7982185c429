"""Host names: the canonical spelling, the patterns of the rules, and the choice of a pattern.

Theory of operation. A name is brought to its canonical spelling once, at the edge: names from the wire by
the ingress (`canonical_wire_host`, ASCII only), names that people wrote by the loader (`canonical_host`,
UTS-46). All later code compares strings. A name without a canonical spelling is refused, never repaired
further: each repair would be a second reading of the same bytes.

Choosing an entry takes a few dictionary look-ups, independent of the number of entries: the name itself,
then every suffix from the longest.
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
    """Return the canonical spelling of a host name that a person wrote; raises `HostError`."""
    if not text:
        raise HostError("the host name is empty")
    # Only text from people: names on the wire must be ASCII already.
    if not text.isascii():
        text = _to_ascii(text)
    return canonical_wire_host(text)


# Bounded, because a sandbox chooses the names.
@lru_cache(maxsize=4096)
def canonical_wire_host(text: str) -> str:
    """Return the canonical spelling of a host name from the wire; raises `HostError`.

    A trailing dot and upper case are dropped. Anything else outside `[a-z0-9_-]` in labels of 1 to 63
    characters is refused, and so is a name whose last label is a number: resolvers read `127.1` and
    `0x7f.1` as addresses.
    """
    name = text.lower() if text.isascii() else text
    # Resolvers take `host.` for `host`, so a trailing dot must not lead past a rule.
    name = name.removesuffix(".")
    if len(name) > MAX_NAME_CHARS:
        raise HostError("the host name is longer than 253 characters")
    if not _LABELS_PATTERN.fullmatch(name):
        raise HostError(*_why_not(name))
    last = name.rpartition(".")[2]
    if _NUMERIC_LABEL.fullmatch(last):
        raise HostError("the last part of the host name is a number", "an address goes into `networks:`")
    # Punycode has several encodings of one name; only the canonical one may pass.
    if "xn--" in name:
        _check_punycode(name)
    return name


def is_canonical(text: str) -> bool:
    """Report whether `text` is the canonical spelling of a host name or of an IP address."""
    try:
        return canonical_wire_host(text) == text
    except HostError:
        return is_address(text)


def is_address(text: str) -> bool:
    """Report whether `text` is the canonical spelling of an IP address, without a zone such as `%eth0`."""
    if ":" not in text and not text[-1:].isdigit():
        return False
    try:
        return str(ipaddress.ip_address(text)) == text and "%" not in text
    except ValueError:
        return False


def _why_not(name: str) -> tuple[str, str]:
    if "/" in name or "@" in name:
        return "this is a URL or part of one, not a host name", "write only the name, such as api.example.com"
    if name.startswith("[") or _may_be_address(name):
        return "this is an address, not a host name", "an address goes into `networks:`"
    if ":" in name:
        return "a host name cannot contain a port", "write the port in `ports:`"
    if "*" in name:
        return (
            "an asterisk can only replace whole labels at the beginning",
            'write "*.example.com" or "**.example.com"',
        )
    if ".." in name or name.startswith(".") or not name:
        return "the host name has an empty label", "write a name such as api.example.com"
    if any(len(label) > 63 for label in name.split(".")):
        return "a label of the host name is longer than 63 characters", ""
    return (
        "the host name contains a character that is not allowed",
        "use letters, digits, - and _, with dots between labels",
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
    """Require that an `xn--` label is exactly the encoding of its own Unicode form."""
    import idna  # noqa: PLC0415 - only names that need it pay for its tables

    for label in name.split("."):
        if not label.startswith("xn--"):
            continue
        try:
            # Decoded and encoded again: only a label with a single spelling can be compared as text.
            back = idna.alabel(idna.ulabel(label)).decode("ascii")
        except (idna.IDNAError, UnicodeError, IndexError, OverflowError):
            back = ""
        if back != label:
            raise HostError("an xn-- label of the host name is not valid punycode")


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
        """Report whether this pattern matches every name that `other` matches."""
        if not other.stars:
            return self.matches(other.suffix)
        if not self.stars:
            return False
        if self.stars == 1:
            # `*.a` covers no `**.a`, which also matches names two labels below.
            return other == self
        return other.suffix == self.suffix or other.suffix.endswith("." + self.suffix)


def parse_host_pattern(text: str) -> HostPattern:
    """Parse a host key of the rules; raises `HostError`."""
    stars = 2 if text.startswith("**.") else 1 if text.startswith("*.") else 0
    return HostPattern(stars, canonical_host(text[stars + 1 :] if stars else text))


def candidate_patterns(host: str) -> Iterator[HostPattern]:
    """Yield every pattern that matches `host`, in the order in which entries are chosen."""
    yield HostPattern(0, host)
    stars = 1
    rest = host
    # From the longest suffix to the shortest, so that the most specific entry comes first.
    while (dot := rest.find(".")) >= 0:
        rest = rest[dot + 1 :]
        if stars == 1:
            yield HostPattern(1, rest)
            stars = 2
        yield HostPattern(2, rest)
