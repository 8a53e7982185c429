"""Requests, secrets and one sandbox for the tests of credentials."""

from __future__ import annotations

from egress.credentials import AppliedHead, CredentialRefusal, Placeholders
from egress.types import Head, Headers, InjectPlaceholder, Secret, Slot

KEY = bytes(range(32))
NEIGHBOUR_KEY = bytes(range(1, 33))
TOKEN = "s3cr3t-0123456789"  # the value of every secret that a test does not name

SANDBOX = Placeholders.of(
    KEY,
    [
        ("github", "github"),
        ("openai", "openai"),
        ("anthropic", "anthropic"),
        ("aws", "aws"),
        ("tenant", "uuid"),
        ("legacy", "hex32"),
    ],
)
STAND_IN = SANDBOX.value("github", "github") or ""
OTHER = SANDBOX.value("openai", "openai") or ""

NAMES = ("github", "openai", "anthropic", "aws", "tenant", "legacy")


def request(target: str = "/", *headers: tuple[str, str], method: str = "GET") -> Head:
    """A request to one host; its Host header always leads."""
    host = "api.example.com"
    return Head(method, "https", host, 443, target, (("host", host), *headers))


def held(**values: str | bytes) -> dict[str, Secret]:
    """Secrets of the given values, and every name of the sandbox with `TOKEN`."""
    given = {name: value.encode() if isinstance(value, str) else value for name, value in values.items()}
    every = dict.fromkeys(NAMES, TOKEN.encode()) | given
    return {name: Secret(name, value) for name, value in every.items()}


def github_in(*slots: str, most: int = 1) -> InjectPlaceholder:
    """A need for the GitHub placeholder in slots written as the rules write them."""
    return InjectPlaceholder("github", "github", tuple(map(slot, slots)), most)


def slot(written: str) -> Slot:
    """Read `header:authorization` and the like."""
    match written.partition(":"):
        case ("header" | "query" | "cookie" | "path" | "basic") as kind, _, name:
            return Slot(kind, name)
    raise AssertionError(written)


def applied(outcome: AppliedHead | CredentialRefusal) -> AppliedHead:
    """The outcome, which must be a head to send."""
    assert isinstance(outcome, AppliedHead), outcome
    return outcome


def refused(outcome: AppliedHead | CredentialRefusal) -> CredentialRefusal:
    """The outcome, which must be a refusal."""
    assert isinstance(outcome, CredentialRefusal), "the request would have been sent"
    return outcome


def values_of(headers: Headers, name: str) -> list[str]:
    """All values of one header."""
    return [line for sent, line in headers if sent == name]
