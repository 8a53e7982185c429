"""Show one request before and after: what a sandbox sends, what the upstream gets, and the way back.

The bytes go through the reader, the exchange and the writer of Egress itself, under the rules of a
file; each secret gets a made-up value. Nothing is sent anywhere.

    python -m scripts.exchange FILE https://HOST/PATH
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from egress.credentials import secret_from
from egress.errors import ContentError, EgressError, UsageError
from egress.exchange import Answer, Destination, Exchange, NeedSecrets, Request, Response, Send
from egress.http1 import (
    Body,
    Framing,
    RequestHead,
    RequestReader,
    encode_request_head,
    encode_response_head,
)
from egress.policy.files import load_policy
from egress.rules.cases import Url, parse_url
from egress.rules.policy import Policy
from egress.scrub import Needles
from egress.types import Identity

VALUE = b"made-up-value-4f2a"
NOW = 1_800_000_000


def scenes(policy: Policy, url: Url) -> Iterator[tuple[str, bytes]]:
    """The four sides of one exchange, each with its title."""
    asked = f"GET {url.target} HTTP/1.1\r\nHost: {url.host}\r\nAuthorization: Bearer dummy\r\n\r\n".encode()
    yield "the sandbox sends", asked
    exchange = Exchange(policy, Identity("demo"), Destination(url.scheme, url.host, url.port))
    needed = exchange.begin(_read(asked), NOW)
    if not isinstance(needed, NeedSecrets):
        raise ContentError("these rules inject nothing there", "`egress explain` says why")
    secrets = {name: secret_from(name, VALUE) for name in needed.names}
    send = exchange.provide(secrets, Needles.of(secrets.values()))
    if not isinstance(send, Send):
        raise ContentError("these rules refuse the request", "`egress explain` says why")
    yield "the upstream receives", encode_request_head(send.head.method, send.head.target, send.head.headers)
    body = b'{"login": "demo", "you_sent": "Bearer ' + VALUE + b'"}\n'
    told = Response(200, "OK", (("content-type", "application/json"), ("set-cookie", "id=7")))
    yield "the upstream answers, and repeats the credential", _written(told, body)
    answer, chunks, rest = exchange.respond(told), exchange.data(body), exchange.end()
    if not isinstance(answer, Answer) or not isinstance(chunks, list) or not isinstance(rest, tuple):
        raise ContentError("these rules withhold the response", "look at its `scrub` and `limits`")
    yield "the sandbox receives", _written(answer, b"".join([*chunks, *rest[0]]))


def _read(message: bytes) -> Request:
    head = next(event for event in RequestReader().feed(message) if isinstance(event, RequestHead))
    return Request(head.method, head.target, head.headers, head.authority, head.upgrade)


def _written(head: Response | Answer, body: bytes) -> bytes:
    framing = Framing(Body.LENGTH, len(body))
    return encode_response_head(head.status, head.reason, head.headers, framing, method="GET") + body


def show(file: str, url: str) -> None:
    """Print the four sides."""
    policy = load_policy([Path(file)]).policy
    if policy is None:
        raise ContentError("these rules cannot be used", "`egress check` lists what is wrong")
    for number, (title, message) in enumerate(scenes(policy, parse_url(url))):
        print("\n" * bool(number) + f"{title}:")
        for line in message.decode().rstrip().splitlines():
            print(f"    {line}".rstrip())


if __name__ == "__main__":
    try:
        if len(sys.argv) != 3:
            raise UsageError("this wants a rule file and a URL")
        show(*sys.argv[1:])
    except EgressError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
