"""Rules, requests and whole exchanges for the tests of the exchange."""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

from egress.credentials import NO_PLACEHOLDERS, Placeholders
from egress.exchange import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    Exchange,
    NeedSecrets,
    Request,
    Response,
    SendRequest,
)
from egress.exchange.request_steps import RequestStep, Spend
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.types import Head, Headers, Identity, Secret

NOW = 1_800_000_000

HEAD = """
version: 1
secrets:
  github: { from: "env:GITHUB_TOKEN", hosts: [api.example.com] }
  deploy: { from: "env:DEPLOY_KEY", hosts: [api.example.com, hooks.example.com, "*.wild.example.com"] }
hosts:
"""
RULES = (
    HEAD
    + """
  api.example.com:
    allow:
      - { id: read, methods: [GET, HEAD], paths: ["/**"] }
      - { id: write, methods: [POST], paths: ["/items"], limits: { request_body: 10, response_body: 20 } }
      - { id: live, methods: [GET], paths: ["/live"], websocket: true }
    deny:
      - { id: no-keys, paths: ["/keys/**"] }
    inject:
      - bearer: github
  hooks.example.com:
    allow: all
    inject:
      - header: { name: x-key, secret: deploy, format: "Key {}" }
  swap.wild.example.com:
    allow: all
    inject:
      - placeholder: { secret: deploy, like: uuid, in: ["header:x-key"] }
  other.example.com: { websocket: true }
  slow.example.com: { limits: { requests: 1/minute } }
  odd.example.com: { ports: [8443] }
  plain.example.com: { http: true }
"""
)


def policy_of(rules: str = RULES) -> Policy:
    """The compiled rules, which must have no error."""
    loaded = load([RuleText("hosts.yaml", rules)])
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


POLICY = policy_of()
SANDBOX = Identity("box")
STAND_INS = Placeholders.of(bytes(range(32)), [("deploy", "uuid"), ("github", "github")])
STAND_IN = STAND_INS.value("deploy", "uuid") or ""
GITHUB_STAND_IN = STAND_INS.value("github", "github") or ""

VALUES = {"github": b"ghp_A1b2C3d4E5f6G7h8I9j0", "deploy": b"d3pl0y-Key-Of/The+Lab="}
SECRETS = {name: Secret(name, value) for name, value in VALUES.items()}
NEEDLES = Needles.of(SECRETS.values())
TOKEN = VALUES["github"].decode()


def handling(text: str, *, inject: bool = True) -> Policy:
    """A policy of one host, `api.example.com`, with `text` as its handling: `scrub: block` and the like."""
    more = "allow: all, inject: [{ bearer: github }]" if inject else "allow: all"
    both = ", ".join(filter(None, [more, text]))
    return policy_of(f"{HEAD}  api.example.com: {{ {both} }}\n")


def exchange(
    host: str = "api.example.com",
    *,
    policy: Policy = POLICY,
    port: int = 443,
    needles: Needles | None = None,
    placeholders: Placeholders = NO_PLACEHOLDERS,
    spend: Spend | None = None,
) -> Exchange:
    """An exchange over https that has not begun."""
    destination = Destination("https", host, port)
    return Exchange(policy, SANDBOX, destination, needles=needles, placeholders=placeholders, spend=spend)


def request(
    target: str = "/",
    *headers: tuple[str, str],
    method: str = "GET",
    host: str = "api.example.com",
    upgrade: tuple[str, ...] = (),
) -> Request:
    """A request whose Host leads."""
    return Request(method, target, (("host", host), *headers), upgrade=upgrade)


def begun(
    one: Exchange, asked: Request, *, held: Iterable[str] = VALUES, needles: Needles | None = NEEDLES
) -> DenyRequest | SendRequest:
    """The outcome of a request, with the secrets in `held` given where they are asked for."""
    answer = one.begin(asked, NOW)
    if isinstance(answer, NeedSecrets):
        answer = one.provide({name: SECRETS[name] for name in answer.names if name in set(held)}, needles)
    assert isinstance(answer, DenyRequest | SendRequest)
    return answer


def sent(outcome: RequestStep) -> Head:
    """The head that goes upstream."""
    assert isinstance(outcome, SendRequest), outcome
    return outcome.head


def denied(outcome: RequestStep) -> str:
    """The code of a denial."""
    assert isinstance(outcome, DenyRequest), outcome
    return outcome.code


def answered(outcome: AnswerHead | CutExchange) -> AnswerHead:
    """The head that goes to the sandbox."""
    assert isinstance(outcome, AnswerHead), outcome
    return outcome


def running(
    asked: Request | None = None, *, policy: Policy = POLICY, host: str = "api.example.com"
) -> Exchange:
    """An exchange whose request was sent, with credentials where the rules want them."""
    one = exchange(host, policy=policy, needles=NEEDLES)
    sent(begun(one, asked or request(host=host)))
    return one


@dataclass(frozen=True)
class Outcome:
    """What the sandbox got."""

    head: AnswerHead
    body: bytes
    trailers: Headers


def told(
    one: Exchange, chunks: Sequence[bytes] = (), *headers: tuple[str, str], trailers: Headers = ()
) -> Outcome | str:
    """What comes of a whole response: what the sandbox got, or the code of the cut."""
    answer = one.respond(Response(200, "OK", headers))
    if isinstance(answer, CutExchange):
        return answer.code
    body = b""
    for chunk in chunks:
        pieces = one.data(chunk)
        if isinstance(pieces, CutExchange):
            return pieces.code
        assert all(pieces), "an empty piece could end a body"
        body += b"".join(pieces)
    last = one.end(trailers)
    if isinstance(last, CutExchange):
        return last.code
    return Outcome(answer, body + b"".join(last[0]), last[1])


PACK: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    # Its best is its default, and takes a hundred times as long as the others.
    "br": functools.cache(lambda data: bytes(brotli.compress(data))),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
"""How a server codes a body, by the name it gives for it."""


def bare_deflate(data: bytes) -> bytes:
    """What some servers send as `deflate`: without the frame of zlib."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def values_of(headers: Headers, name: str) -> list[str]:
    """All values of one header."""
    return [value for field, value in headers if field == name]


# Every step, and the stages that take it -----------------------------------------------------

STEPS: Mapping[str, Callable[[Exchange], object]] = {
    "begin": lambda one: one.begin(request(), NOW),
    "provide": lambda one: one.provide(SECRETS, NEEDLES),
    "request_data": lambda one: one.request_data(b"x"),
    "informational": lambda one: one.informational(Response(103, "", ())),
    "respond": lambda one: one.respond(Response(200, "OK", ())),
    "data": lambda one: one.data(b"x"),
    "message": lambda one: one.message(b"x", ends=True),
    "control": lambda one: one.control(b"x"),
    "end": lambda one: one.end(),
}
FITTING: Mapping[str, frozenset[str]] = {
    "head": frozenset({"begin"}),
    "secrets": frozenset({"provide"}),
    "sent": frozenset({"request_data", "informational", "respond"}),
    "body": frozenset({"request_data", "data", "end"}),
    "frames": frozenset({"request_data", "message", "control", "end"}),
    "over": frozenset(),
}
