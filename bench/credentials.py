"""What it costs to put credentials into one request head. Numbers to read, not a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench._timing import microseconds
from egress.credentials import Placeholders, apply_credentials
from egress.types import (
    Head,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    InjectPlaceholder,
    InjectQuery,
    Secret,
    Slot,
)

Row = tuple[str, float, str, float | None]

HEADERS = (
    ("host", "api.example.com"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-GB,en;q=0.9"),
    ("authorization", "Bearer placeholder"),
    ("content-type", "application/json"),
    ("content-length", "120"),
    ("x-api-version", "2026-01-01"),
    ("cookie", "a=1; b=2; session=0123456789abcdefghijklmnopqrstuv"),
)
HEAD = Head("GET", "https", "api.example.com", 443, "/repos/acme/widget/issues?state=open&page=2", HEADERS)
SECRETS = {"token": Secret("token", b"s3cr3t-0123456789-0123456789")}
SANDBOX = Placeholders.of(
    bytes(32), [("token", "github"), ("b", "openai"), ("c", "anthropic"), ("d", "aws"), ("e", "uuid")]
)
STAND_IN = SANDBOX.value("token", "github") or ""


def run() -> list[Row]:
    bearer = (InjectHeader("token", "authorization", "Bearer "),)
    swap = (InjectPlaceholder("token", "github", (Slot("header", "authorization"),)),)
    asking = replace(HEAD, headers=(*HEADERS[:5], ("authorization", f"Bearer {STAND_IN}"), *HEADERS[6:]))
    encoded = replace(HEAD, target="/search?q=a%20b%2Fc%3Fd&redirect=https%3A%2F%2Fexample.com%2F")
    hostile = replace(HEAD, headers=(*HEADERS, ("x", "%2541" * 12_000)))
    calls: list[tuple[str, Callable[[], object], float | None]] = [
        ("search, 5 placeholders, none there", lambda: SANDBOX.is_in(HEAD), 5.0),
        ("search, same, an encoded query", lambda: SANDBOX.is_in(encoded), None),
        ("apply, nothing needed", lambda: apply_credentials(HEAD, (), SECRETS, SANDBOX), 5.0),
        ("apply, bearer", lambda: apply_credentials(HEAD, bearer, SECRETS), 5.0),
        ("apply, bearer, 5 placeholders", lambda: apply_credentials(HEAD, bearer, SECRETS, SANDBOX), 10.0),
        ("apply, basic", lambda: apply_credentials(HEAD, (InjectBasic("token", "u"),), SECRETS), None),
        ("apply, query", lambda: apply_credentials(HEAD, (InjectQuery("token", "key"),), SECRETS), None),
        ("apply, cookie", lambda: apply_credentials(HEAD, (InjectCookie("token", "sid"),), SECRETS), None),
        ("apply, placeholder swapped", lambda: apply_credentials(asking, swap, SECRETS, SANDBOX), None),
    ]
    rows: list[Row] = [(name, microseconds(call), "us", target) for name, call, target in calls]
    rows.append(
        ("search, 60 kB of nested escapes", microseconds(lambda: SANDBOX.is_in(hostile), 10), "us", None)
    )
    wanted = [(each.secret, each.like) for each in SANDBOX.all]
    rows.append(
        ("make 5 placeholders", microseconds(lambda: Placeholders.of(bytes(32), wanted), 50), "us", None)
    )
    return rows


if __name__ == "__main__":
    for name, value, unit, target in run():
        aim = "" if target is None else f"  (aim: {target:g} {unit})"
        print(f"{name:<40} {value:>10.2f} {unit}{aim}")
