"""Heads of messages: their values, the framing of the body behind them, and how a block becomes one.

Names in `headers` are lower case, values are latin-1 text without surrounding white space. Heads
keep every field as it came. The typed attributes also say what a field means for the connection, so
that no caller reads it a second time and differently.

The parsing functions take a block through its empty line and return the value, or raise `WireError`
with the status for a client; the response reader turns that into its own. They keep no state.

Leniency for servers, because real ones need it; clients get none:

- the space behind the status may be missing when there is no reason;
- the reason may hold bytes beyond ASCII;
- `Content-Length: 0` on 1xx and 204 is read as if it were absent. Any other length there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from egress.errors import WireError
from egress.http1.fields import (
    ReadFields,
    connection_options,
    find_fault,
    read_fields,
    read_length,
    refuse_repeated,
    upgrade_protocols,
    without_fields,
)
from egress.http1.grammar import AUTHORITY, OTHER_VERSION, REQUEST_LINE, STATUS_LINE
from egress.http1.limits import MessageLimits
from egress.types import Headers

TargetForm = Literal["origin", "absolute", "authority", "asterisk"]
Version = Literal["1.1", "1.0"]


class Body(StrEnum):
    """How the end of a body is found."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    """The body runs until the sender closes; only responses have it."""


@dataclass(frozen=True, slots=True)
class Framing:
    """The body that follows a head; `length` counts for `Body.LENGTH` alone."""

    body: Body
    length: int = 0

    @property
    def is_empty(self) -> bool:
        """No byte of body follows, whether or not the head says so in a length."""
        body = self.body
        return body is Body.NONE or (body is Body.LENGTH and not self.length)

    @classmethod
    def sized(cls, length: int) -> Framing:
        """Frame a body of exactly `length` bytes."""
        return cls(Body.LENGTH, length)


NO_BODY = Framing(Body.NONE)
CHUNKED = Framing(Body.CHUNKED)
UNTIL_CLOSE = Framing(Body.CLOSE)


class RequestHead(NamedTuple):
    """A request line and its fields.

    `target` is raw: paths are neither decoded nor normalised. `authority` is what the target itself
    names (absolute and authority form), `host` the one Host field; they are not compared here.
    """

    method: str
    target: str
    form: TargetForm
    headers: Headers
    framing: Framing = NO_BODY
    host: str = ""
    """Empty only for HTTP/1.0."""
    authority: str = ""
    version: Version = "1.1"
    keep_alive: bool = True
    expect_continue: bool = False
    """The client waits for 100 before it sends its body."""
    upgrade: tuple[str, ...] = ()
    """Protocols asked for, lower case; empty unless Connection nominates Upgrade."""


class ResponseHead(NamedTuple):
    """The status line and fields of a final response; 101 is final here."""

    status: int
    reason: str
    headers: Headers
    framing: Framing
    version: Version = "1.1"
    keep_alive: bool = True
    upgrade: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Informational:
    """An interim response (1xx but not 101): the final one is still to come."""

    status: int
    reason: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of body, never empty. Pieces follow the reads, not the sender's chunks."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The message is complete."""

    trailers: Headers = ()


END = End()

RequestEvent = RequestHead | Data | End
ResponseEvent = ResponseHead | Informational | Data | End

Emit = Callable[[Data | End], None]
"""Takes the events of a body reader."""


# Request smuggling attacks the decision which body follows a head. Content-Length is a plain number, once.
# Transfer-Encoding is the one word `chunked`, once, and never with HTTP/1.0. Both together are refused in
# either direction: whichever we chose, the next parser might choose the other.
SINGLE_FIELDS: Final = ("content-length", "transfer-encoding")


def stated_framing(fields: Mapping[str, str], version: str) -> Framing:
    """Read what Content-Length and Transfer-Encoding state; `NO_BODY` where neither is there.

    Repeated fields must have been refused before.
    """
    coding = fields.get("transfer-encoding")
    length = fields.get("content-length")
    if coding is not None:
        if length is not None:
            raise WireError("The head has both Content-Length and Transfer-Encoding.", "Send one of them.")
        return _read_coding(coding, version)
    return NO_BODY if length is None else Framing(Body.LENGTH, read_length(length))


def _read_coding(coding: str, version: str) -> Framing:
    if version != "1.1":
        raise WireError("HTTP/1.0 has no Transfer-Encoding.")
    if coding.lower() != "chunked":
        raise WireError("The transfer coding is not `chunked`.", "Send a plain chunked body.", status=501)
    return CHUNKED


def has_no_body(method: str, status: int) -> bool:
    """Tell whether a response to `method` with `status` ends with its head, whatever its fields say.

    205 is framed by its fields like any other: RFC 9112 makes no exception for it, so neither do
    clients.
    """
    return method == "HEAD" or status in (204, 304) or status < 200 or (method == "CONNECT" and status < 300)


def response_framing(fields: Mapping[str, str], version: str, method: str, status: int) -> Framing:
    """Decide the body of a response to a request with `method`."""
    stated = stated_framing(fields, version)
    if has_no_body(method, status):
        if (status < 200 or status == 204) and stated != NO_BODY and stated != Framing.sized(0):
            raise WireError("A response that cannot have a body states one.")
        return NO_BODY
    return UNTIL_CLOSE if stated is NO_BODY else stated


# The fields are read before the rest of a head is judged: only then is it certain that the block holds no
# stray byte, and the fault that is named does not depend on how the block came in.
_LENGTH_FIELD: Final = frozenset({"content-length"})
_SINGLE_REQUEST_FIELDS: Final = ("host", "expect", *SINGLE_FIELDS)


def parse_request_head(block: bytes, limits: MessageLimits, before: RequestHead | None = None) -> RequestHead:
    """Read a request head from `block`, which ends with its empty line.

    `before` is a head that was read before with these limits: clients repeat themselves.
    """
    text = block.decode("latin-1")
    line = REQUEST_LINE.match(text)
    if line is None:
        raise _refuse_request_line(text)
    method, target, minor = line.groups()
    headers, fields = read_fields(text, line.end(), limits.fields, _read_before(before))
    if len(target) > limits.target:
        raise WireError("The request target is too long.", "Send a shorter URL.", status=414)
    version: Version = "1.1" if minor == "1" else "1.0"
    form, authority = read_target(method, target)
    if before is not None and headers is before.headers and _is_like(before, method, version):
        # The very same fields were judged with the head before: only method and target are new.
        said = before
        return RequestHead(
            method,
            target,
            form,
            headers,
            said.framing,
            said.host,
            authority,
            version,
            said.keep_alive,
            said.expect_continue,
            said.upgrade,
        )
    refuse_repeated(headers, fields, _SINGLE_REQUEST_FIELDS)
    framing = stated_framing(fields, version)
    if framing is not NO_BODY and method == "CONNECT":
        raise WireError("A CONNECT request has a body.")
    options = connection_options(headers, fields)
    return RequestHead(
        method,
        target,
        form,
        headers,
        framing,
        _read_host(fields.get("host"), version),
        authority,
        version,
        version == "1.1" and "close" not in options,
        "expect" in fields and _read_expect(fields["expect"], version) and framing is not NO_BODY,
        upgrade_protocols(headers, options) if options and version == "1.1" else (),
    )


def parse_response_head(
    block: bytes,
    limits: MessageLimits,
    method: str,
    asked: tuple[str, ...],
    before: ResponseHead | None = None,
) -> ResponseHead | Informational:
    """Read the head of a response to a request with `method` that asked to upgrade to `asked`.

    `before` is as for requests: within a second, servers repeat themselves too.
    """
    text = block.decode("latin-1")
    line = STATUS_LINE.match(text)
    if line is None:
        raise _refuse_status_line(text)
    minor, digits, reason = line.groups()
    status, reason = int(digits), (reason or "").strip(" \t")
    headers, fields = read_fields(text, line.end(), limits.fields, _read_before(before))
    refuse_repeated(headers, fields, SINGLE_FIELDS)
    version: Version = "1.1" if minor == "1" else "1.0"
    framing = response_framing(fields, version, method, status)
    options = connection_options(headers, fields)
    upgrade = upgrade_protocols(headers, options) if options and version == "1.1" else ()
    if status == 101:
        _check_switch(upgrade, asked)
    stated: Headers = headers
    if "content-length" in fields and (status < 200 or status == 204):
        stated = without_fields(headers, _LENGTH_FIELD)
    if status < 200 and status != 101:
        return Informational(status, reason, stated)
    keep_alive = version == "1.1" and "close" not in options
    return ResponseHead(status, reason, stated, framing, version, keep_alive, upgrade)


def _read_before(before: RequestHead | ResponseHead | None) -> ReadFields | None:
    """The fields of that head, if they are as they were read."""
    headers = None if before is None else before.headers
    return headers if type(headers) is ReadFields else None


def _is_like(before: RequestHead, method: str, version: Version) -> bool:
    """Tell whether the same fields mean the same in a request with this method and version."""
    return version == before.version and method != "CONNECT" != before.method


def check_host(value: str) -> str:
    """Return the value of a Host field, or refuse it."""
    if not is_authority(value):
        raise WireError("The Host field is not one host with an optional port.")
    return value


def _read_host(value: str | None, version: Version) -> str:
    if value is None:
        if version == "1.1":
            raise WireError("The request has no Host field.", "Send exactly one Host field.")
        return ""
    return check_host(value)


def _read_expect(value: str, version: Version) -> bool:
    if version == "1.0":
        return False
    if value.lower() != "100-continue":
        raise WireError("The expectation is not `100-continue`.", status=417)
    return True


def _check_switch(switched: tuple[str, ...], asked: tuple[str, ...]) -> None:
    if len(switched) != 1 or switched[0] not in asked:
        raise WireError("The response switches to a protocol that was not asked for.")


def _refuse_request_line(text: str) -> WireError:
    stray = find_fault(text.encode("latin-1"))
    if stray is None and OTHER_VERSION.match(text):
        return WireError("The version is neither HTTP/1.1 nor HTTP/1.0.", "Speak HTTP/1.1.", status=505)
    return stray or WireError("The request line is malformed.")


def _refuse_status_line(text: str) -> WireError:
    return find_fault(text.encode("latin-1")) or WireError("The status line is malformed.")


# A request target stays as it is: no decoding, no dot segments, no case folding. Rules judge paths; a
# target that is refused here has none of the four valid forms.
# A query straight behind the authority is refused: readers differ on where the host ends in it.
_ABSOLUTE_TARGET: Final = re.compile(rf"(?i:https?)://({AUTHORITY})(?:/[\x21-\x7e]*+)?+")
_HOST_PORT: Final = re.compile(rf"(?=[^:\[]++:|\[[^\]]++\]:){AUTHORITY}")
_HOST_FIELD: Final = re.compile(AUTHORITY)


def read_target(method: str, target: str) -> tuple[TargetForm, str]:
    """Return the form of `target` and the authority it names (`""` for origin and asterisk form).

    Both come out of `REQUEST_LINE`, which has looked at every character.
    Raises WireError where the form is none of the four, or not the one the method calls for.
    """
    if method == "CONNECT":
        return "authority", _read_connect(target)
    if target[0] == "/":
        return "origin", ""
    if target == "*":
        if method == "OPTIONS":
            return "asterisk", ""
        raise WireError("Only OPTIONS may have the target `*`.")
    found = _ABSOLUTE_TARGET.fullmatch(target)
    if found is None:
        raise WireError("The request target has no valid form.", "Use a path, or a full http or https URL.")
    return "absolute", found[1]


def _read_connect(target: str) -> str:
    if _HOST_PORT.fullmatch(target) is None:
        raise WireError("The target of CONNECT is not host:port.")
    return target


def is_authority(text: str) -> bool:
    """Tell whether `text` may stand in Host: a name or address, maybe a port, nothing else."""
    return _HOST_FIELD.fullmatch(text) is not None
