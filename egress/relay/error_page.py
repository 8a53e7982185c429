"""Our own error pages: what a sandbox reads when the proxy refuses. Pure.

Constant text, for programs first: JSON unless the client reads plain text better, never HTML. `git`
shows a body to its user only where it is plain text, `git-lfs` only a `message` at the top of JSON. A gRPC
client reads no body at all and gets the trailers that it does read. `pip` keeps every error about the page of
a package to itself and shows only a Content-Type that it did not expect. Clients of AWS show the message of
an XML error, or of a JSON error where they sent JSON.

Nothing that an upstream or the client sent is in a page: it holds the code, its two sentences from
`egress.errors`, the id that the proxy itself gave to the request, and the command with which an operator
finds out what would allow it. Of the policy it holds the `reason:` of the deny that decided, which the
author of the rules writes for the sandbox. What the client sends in Accept, User-Agent and Content-Type only
chooses between the forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from egress.errors import CODES, RefusalCode
from egress.inspect.inspector import RefusalAnswer
from egress.types import Headers

_CHALLENGE: Final = ("proxy-authenticate", 'Basic realm="egress"')
_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}+")
_DENIED_STATUSES: Final = frozenset({403, 426})
_PACKAGE_PAGE_TYPE: Final = "application/vnd.pypi.simple.v1+json"
_AWS_CLIENT: Final = re.compile(r"(?:Boto3|Botocore|aws-cli|aws-sdk-[a-z0-9-]{1,32}+)/")
_AWS_JSON_TYPE: Final = "application/x-amz-json"
_TOO_MANY_REQUESTS: Final = 429
MAX_RETRY_SECONDS: Final = 60
"""The longest wait that clients of a body's language are told: some sleep for whatever they are told."""
_MULTIPLE_CHOICES: Final = 300
"""The status for `pip`: neither an error nor a redirect."""
_MAX_ACCEPT_CHARS: Final = 512
_MEDIA_RANGE: Final = re.compile(
    r"([a-z0-9*+.-]++/[a-z0-9*+.-]++)(?:[ \t]*+;[ \t]*+q=(0(?:\.[0-9]{0,3}+)?|1(?:\.0{0,3}+)?))?+",
    re.IGNORECASE,
)
_JSON_RANGES: Final = ("application/json", "application/*", "*/*")
_TEXT_RANGES: Final = ("text/plain", "text/*", "*/*")

# Numbers of gRPC. A client may try again by itself after 14, so nothing that lasts is that.
_GRPC_DENIED_STATUS: Final = 7
_GRPC_STATUSES: Final = {400: 3, 407: 16, 408: 4, 413: 8, 429: 8, 500: 13, 502: 14, 503: 14, 504: 4}
_GRPC_TYPES: Final = (
    # The longer names first: one is the beginning of the other.
    ("application/grpc-web-text", "application/grpc-web-text+proto"),
    ("application/grpc-web", "application/grpc-web+proto"),
    ("application/grpc", "application/grpc"),
)


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """A whole answer.

    The reason carries the code and the command, because many clients show nothing else. HTTP/2 has no reason;
    there the fields have both.
    """

    status: int
    reason: str
    headers: Headers
    body: bytes
    closes: bool = False
    """The reason is one of the connection, so the next try needs another connection."""


def error_page(
    code: str,
    request_id: str,
    *,
    accept: str = "",
    user_agent: str = "",
    content_type: str = "",
    status: int | None = None,
    retry_after: int = 0,
    denied_because: str = "",
) -> ErrorPage:
    """Make the page of a code, in the form that this client reads best.

    Total: an unknown code is `internal`, and an odd value of the client is as good as none. `status`
    stands in the place of the code's own where it is that of an error; not for gRPC, which has none.
    `denied_because` is the reason of the deny rule that decided.
    """
    reply = _grpc_type(content_type)
    if reply:
        return grpc_error_page(
            code, request_id, content_type=reply, retry_after=retry_after, denied_because=denied_because
        )
    code, known = _known(code, denied_because)
    name = _shown_id(request_id)
    answered = status if status is not None and 400 <= status < 600 else known.status
    if user_agent.startswith("pip/") and _PACKAGE_PAGE_TYPE in accept[:_MAX_ACCEPT_CHARS]:
        # Any error would read like a package that is not there.
        answered, kind = _MULTIPLE_CHOICES, f'text/plain; denied="{_reason(code, known, name)}"'
        body = _text(code, known, name)
    elif _AWS_CLIENT.match(user_agent) and not content_type.startswith(_AWS_JSON_TYPE):
        kind, body = "text/xml; charset=utf-8", _xml(code, known, name)
    elif user_agent.startswith("git/") or _prefers_text(accept):
        kind, body = "text/plain; charset=utf-8", _text(code, known, name)
    else:
        # Only these clients, because the shape of the others is one that programs rely on.
        has_sentence = user_agent.startswith("git-lfs/") or _AWS_CLIENT.match(user_agent)
        shown = _sentence(code, known, name) if has_sentence else ""
        kind, body = "application/json", _json(code, known, name, shown, denied_because)
    headers = [
        ("content-type", kind),
        ("content-length", str(len(body))),
        *_own_fields(code, name, retry_after),
        ("x-content-type-options", "nosniff"),
    ]
    if answered == 407:
        headers.append(_CHALLENGE)
    return ErrorPage(
        answered, _reason(code, known, name), tuple(headers), body, closes=bool(known.retry_after)
    )


def answering_page(
    code: str, request_id: str, headers: Headers, retry_after: int = 0, denied_because: str = ""
) -> ErrorPage:
    """Make the page of a code that answers a request with these fields."""
    fields = dict(headers)
    return error_page(
        code,
        request_id,
        accept=fields.get("accept", ""),
        user_agent=fields.get("user-agent", ""),
        content_type=fields.get("content-type", ""),
        retry_after=retry_after,
        denied_because=denied_because,
    )


def body_answer_page(answer: RefusalAnswer, code: str, request_id: str, retry_after: int = 0) -> ErrorPage:
    """Make the answer to a request whose body the rules have judged, in the language of that body."""
    code, known = _known(code, "")
    name = _shown_id(request_id)
    headers = (
        ("content-type", answer.media_type),
        ("content-length", str(len(answer.body))),
        *answer.headers,
        *_own_fields(code, name, retry_after if retry_after <= MAX_RETRY_SECONDS else 0, answer.status),
        ("x-content-type-options", "nosniff"),
    )
    reason = _reason(code, known, name)
    return ErrorPage(answer.status, reason, headers, answer.body, closes=bool(known.retry_after))


def grpc_error_page(
    code: str,
    request_id: str,
    *,
    content_type: str = "application/grpc",
    retry_after: int = 0,
    denied_because: str = "",
) -> ErrorPage:
    """Make the answer of a code to a gRPC client: its trailers alone, in a head of status 200."""
    code, known = _known(code, denied_because)
    name = _shown_id(request_id)
    number = _GRPC_DENIED_STATUS if known.lasts else _GRPC_STATUSES.get(known.status, _GRPC_DENIED_STATUS)
    about = f"{code}, request {name}" if name else code
    headers = (
        ("content-type", content_type),
        ("grpc-status", str(number)),
        ("grpc-message", _percent_encoded(f"{known.message} {known.hint} ({about})")),
        *_own_fields(code, name, retry_after),
    )
    return ErrorPage(200, _reason(code, known, name), headers, b"", closes=bool(known.retry_after))


def _known(code: str, because: str) -> tuple[str, RefusalCode]:
    if code not in CODES:
        return "internal", CODES["internal"]
    known = CODES[code]
    # Part of the message, because that is what clients show to their users.
    return code, replace(known, message=f"{known.message} {because}") if because else known


def _shown_id(request_id: str) -> str:
    return request_id if _ID_PATTERN.fullmatch(request_id) else ""


def _own_fields(code: str, name: str, retry_after: int, status: int = 0) -> Headers:
    fields = [("cache-control", "no-store"), ("egress-denied", code)]
    if name:
        fields.append(("egress-request", name))
    if CODES[code].is_final and status != _TOO_MANY_REQUESTS:
        # Read by the SDKs of model vendors, which repeat a refused request for minutes otherwise.
        fields.append(("x-should-retry", "false"))
    if seconds := max(retry_after, CODES[code].retry_after):
        fields.append(("retry-after", str(seconds)))
    return tuple(fields)


def _command(known: RefusalCode, name: str) -> str:
    """Return the command that tells the operator what would allow the request; empty where no rule would."""
    return f"egress log suggest {name}" if name and known.status in _DENIED_STATUSES else ""


def _reason(code: str, known: RefusalCode, name: str) -> str:
    command = _command(known, name)
    return f"Egress {code} ({command})" if command else f"Egress {code}"


def _json(code: str, known: RefusalCode, name: str, shown: str, because: str) -> bytes:
    error = {"code": code, "message": known.message, "hint": known.hint, "request": name}
    if because:
        error["reason"] = because
    if command := _command(known, name):
        error["operator"] = command
    above = {"message": shown} if shown else {}
    return json.dumps({**above, "error": error}, indent=2).encode() + b"\n"


def _sentence(code: str, known: RefusalCode, name: str) -> str:
    about = ", ".join(filter(None, (code, _command(known, name))))
    return f"Egress: {known.message} {known.hint} ({about})"


def _text(code: str, known: RefusalCode, name: str) -> bytes:
    lines = [f"Egress: {known.message} ({code})", known.hint]
    if name:
        lines.append(f"Request: {name}")
    if command := _command(known, name):
        lines.append(f"For the operator: {command}")
    return "".join(f"{line}\n" for line in lines).encode()


def _xml(code: str, known: RefusalCode, name: str) -> bytes:
    """An error as the query and XML protocols of AWS write it."""
    # A reason may hold characters that XML cannot.
    sentence = "".join(char if char.isprintable() else " " for char in _sentence(code, known, name))
    message = f"<Message>{escape(sentence, quote=False)}</Message>"
    error = f"<Error><Type>Sender</Type><Code>{code}</Code>{message}</Error>"
    whole = f"<ErrorResponse>{error}<RequestId>{name}</RequestId></ErrorResponse>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'.encode()


def _percent_encoded(text: str) -> str:
    """As the protocol of gRPC writes a message: visible ASCII and space stand as they are."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in text.encode()
    )


def _grpc_type(content_type: str) -> str:
    """The content type of the answer to a gRPC request; empty for any other."""
    asked = content_type[:64].partition(";")[0].strip(" \t").lower()
    for kind, reply in _GRPC_TYPES:
        if asked == kind or asked.startswith(f"{kind}+"):
            return reply
    return ""


def _prefers_text(accept: str) -> bool:
    """Tell whether a client prefers plain text to JSON. No preference, or a malformed one, means JSON."""
    if not accept or len(accept) > _MAX_ACCEPT_CHARS:
        return False
    wanted: dict[str, float] = {}
    for each in accept.split(","):
        match = _MEDIA_RANGE.fullmatch(each.strip(" \t"))
        if match is not None:
            wanted[match[1].lower()] = float(match[2] or 1)
    return _weight(wanted, _TEXT_RANGES) > _weight(wanted, _JSON_RANGES)


def _weight(wanted: Mapping[str, float], ranges: tuple[str, ...]) -> float:
    """Return the quality that the most specific range states."""
    return next((wanted[each] for each in ranges if each in wanted), 0)
