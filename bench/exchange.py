"""What one exchange costs from head to record, without any I/O: injected, and denied.

Prints numbers; judges nothing.
"""

from __future__ import annotations

from bench._timing import microseconds
from egress.exchange import Destination, Exchange, NeedSecrets, Request, Response, SendRequest
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.types import Identity, Secret

Row = tuple[str, float, str, float | None]

RULES = """
version: 1
secrets:
  github: { from: "env:GITHUB_TOKEN", hosts: [api.github.com] }
hosts:
  api.github.com:
    allow:
      - { id: read, methods: [GET, HEAD], paths: ["/**"] }
    deny:
      - { id: no-keys, paths: ["/user/keys/**"] }
    inject:
      - bearer: github
  docs.example.com: {}
"""
TOKEN = Secret("github", b"ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6")
ASKED = (
    ("user-agent", "curl/8.5.0"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate, br"),
    ("authorization", "Bearer dummy"),
    ("connection", "keep-alive"),
)
TOLD = (
    ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("content-type", "application/json; charset=utf-8"),
    ("content-length", "2048"),
    ("cache-control", "private, max-age=60, s-maxage=60"),
    ("vary", "Accept, Authorization, Cookie, X-GitHub-OTP"),
    ("etag", 'W/"0f3b1a2c4d5e6f708192a3b4c5d6e7f8"'),
    ("x-ratelimit-limit", "5000"),
    ("x-ratelimit-remaining", "4987"),
    ("x-request-id", "A1B2:3C4D5E:6F7081:92A3B4:C5D6E7F8"),
    ("strict-transport-security", "max-age=31536000; includeSubdomains; preload"),
)
BODY = (b'{"id": 1296269, "name": "hello-world", "private": false, "url": "https://x"}, ' * 40)[:2048]
SANDBOX = Identity("bench")


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    policy = load([RuleText("hosts.yaml", RULES)]).policy
    if policy is None:
        raise SystemExit("the rules of this benchmark do not load")
    needles = Needles.of([TOKEN])
    rows: list[Row] = []
    for name, job in (
        ("exchange, injected", lambda: injected(policy, needles)),
        ("exchange, nothing injected", lambda: passed(policy)),
        ("exchange, denied by a rule", lambda: denied(policy)),
    ):
        rows.append((name, microseconds(job, 1000), "us", None))
    return rows


def injected(policy: Policy, needles: Needles) -> None:
    exchange = Exchange(policy, SANDBOX, Destination("https", "api.github.com", 443), needles=needles)
    needed = exchange.begin(Request("GET", "/repos/a/b", (("host", "api.github.com"), *ASKED)), 0)
    if not isinstance(needed, NeedSecrets) or not isinstance(
        exchange.provide({"github": TOKEN}, needles), SendRequest
    ):
        raise SystemExit("the request was not injected")
    _answer(exchange)


def passed(policy: Policy) -> None:
    exchange = Exchange(policy, SANDBOX, Destination("https", "docs.example.com", 443))
    if not isinstance(
        exchange.begin(Request("GET", "/a", (("host", "docs.example.com"), *ASKED)), 0), SendRequest
    ):
        raise SystemExit("the request was not sent")
    _answer(exchange)


def denied(policy: Policy) -> None:
    exchange = Exchange(policy, SANDBOX, Destination("https", "api.github.com", 443))
    exchange.begin(Request("POST", "/user/keys", (("host", "api.github.com"), *ASKED)), 0)
    exchange.finish()


def _answer(exchange: Exchange) -> None:
    exchange.respond(Response(200, "OK", TOLD))
    exchange.data(BODY)
    exchange.end()
    exchange.finish()


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<45} {value:10.3f} {unit:<5} {'' if target is None else f'target {target}'}")
