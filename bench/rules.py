"""What a verdict costs, how loading scales, and how long `egress check` takes from a cold start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench._timing import microseconds, seconds
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity

Row = tuple[str, float, str, float | None]

ROOT = Path(__file__).parents[1]
IDENTITY = Identity("bench")
CALLS = 20_000
HEADERS = tuple(
    (name, "value of a usual length")
    for name in (
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "content-type",
        "content-length",
        "x-request-id",
    )
)
RULES = "".join(
    f'      - {{ id: r{n}, methods: [GET, POST], paths: ["/repos/acme/*/thing{n}/**"] }}\n' for n in range(20)
)
FIVE_LINES = """\
  host{n}.example.net:
    allow:
      - id: read
        methods: [GET, HEAD]
        paths: ["/a/**"]
"""


def rules_text(entries: int) -> str:
    """A rule file with one host of 20 rules and many others of five lines each."""
    others = "".join(FIVE_LINES.format(n=n) for n in range(entries))
    return f"version: 1\nhosts:\n  api.example.com:\n    allow:\n{RULES}{others}"


def policy(entries: int) -> Policy:
    """The same, compiled."""
    loaded = load([RuleText("bench.yaml", rules_text(entries))])
    if loaded.policy is None:
        raise RuntimeError("the benchmark's rules do not load")
    return loaded.policy


def head(target: str, host: str = "api.example.com") -> Head:
    """A request of usual size."""
    return Head("GET", "https", host, 443, target, HEADERS)


def run() -> list[Row]:
    """All rows of this benchmark."""
    few, many = policy(10), policy(10_000)
    last = head("/repos/acme/widgets/thing19/42?state=open")
    with_few = microseconds(lambda: decide(few, IDENTITY, last, 0), CALLS)
    with_many = microseconds(lambda: decide(many, IDENTITY, last, 0), CALLS)
    first = head("/repos/acme/widgets/thing0/42")
    nothing = head("/nothing/of/this")
    escaped = head("/repos/acme/wid%67ets/thing19/%E4%B8%AD")
    stranger = head("/", "stranger.example.org")
    text = rules_text(10_000)
    command = [sys.executable, "-m", "egress", "check", "config/hosts.yaml"]
    return [
        ("decide, 20 rules on the host, the last one matches", with_few, "us", 6),
        ("decide, the same with 10 000 other entries", with_many, "us", None),
        ("  as a ratio to 10 entries", with_many / with_few, "x", 1.2),
        (
            "decide, the first of 20 matches",
            microseconds(lambda: decide(few, IDENTITY, first, 0), CALLS),
            "us",
            None,
        ),
        ("decide, none matches", microseconds(lambda: decide(few, IDENTITY, nothing, 0), CALLS), "us", None),
        (
            "decide, a path with escapes",
            microseconds(lambda: decide(few, IDENTITY, escaped, 0), CALLS),
            "us",
            None,
        ),
        (
            "decide, a host no rule names",
            microseconds(lambda: decide(many, IDENTITY, stranger, 0), CALLS),
            "us",
            None,
        ),
        (
            "decide_host, a known host",
            microseconds(lambda: decide_host(many, IDENTITY, "api.example.com", 443, 0), CALLS),
            "us",
            None,
        ),
        (
            "load 10 000 entries of five lines",
            seconds(lambda: load([RuleText("bench.yaml", text)]), rounds=3),
            "s",
            3,
        ),
        (
            "egress check config/hosts.yaml, start-up included",
            seconds(lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True), rounds=5),
            "s",
            0.3,
        ),
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
