"""Whole heads: one block of bytes to a `RequestHead` or a `ResponseHead`.

Each function takes the block through its empty line and returns the value or raises `WireError`
with the status for a client; the response reader turns that into its own. Nothing is kept between
calls.

The fields are read before anything else is judged: only then is it certain that the block holds no
stray byte, and the fault that is named does not depend on how the block came in.

Mercies for servers, because real ones need them; clients get none:

- the space behind the status may be missing when there is no reason;
- the reason may hold bytes beyond ASCII;
- `Content-Length: 0` on 1xx and 204 (see `framing`).
"""

from __future__ import annotations

import re
from typing import Final

from egress.errors import WireError
from egress.http1.events import NO_BODY, Informational, RequestHead, ResponseHead, TargetForm, Version
from egress.http1.field_block import ReadFields, find_fault, read_fields, refuse_repeated
from egress.http1.framing import SINGLE_FIELDS, response_framing, stated_framing
from egress.http1.grammar import AUTHORITY, OTHER_VERSION, REQUEST_LINE, STATUS_LINE
from egress.http1.hop_by_hop import connection_options, upgrade_protocols, without_fields
from egress.http1.limits import MessageLimits
from egress.types import Headers

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
        # Of the very same fields the same is true.
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
    """Whether the same fields mean the same in a request with this method and version."""
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


# The four forms of a request target, told apart strictly.
#
# The target stays as it is: no decoding, no dot segments, no case folding. Rules judge paths; what is
# refused here has no valid form at all.
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
