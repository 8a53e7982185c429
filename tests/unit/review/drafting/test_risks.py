"""What a rule would open, and what is never suggested."""

from __future__ import annotations

import pytest

from egress.review.drafting.risks import MAX_SHOWN, opened, refusal, risks
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Decision, Effects, Head, InjectHeader, Verdict


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("metadata.google.internal", ""),
        ("metadata", ""),
        ("169.254.169.254", ""),
        ("localhost", ""),
        ("printer", ""),
        ("wiki.corp", ""),
        ("10.0.0.1", ""),
        ("::1", ""),
        ("a.example.com", "192.168.1.1"),
        ("a.example.com", "::ffff:10.0.0.1"),
    ],
)
def test_what_is_internal_is_never_suggested(host: str, address: str) -> None:
    assert refusal(host, address, "host.unknown")


@pytest.mark.parametrize(
    ("host", "address"), [("a.example.com", ""), ("a.example.com", "93.184.216.34"), ("8.8.8.8", "")]
)
def test_what_is_public_may_be(host: str, address: str) -> None:
    assert refusal(host, address, "host.unknown") == ""
    assert refusal(host, address, "address.refused")


def told(head: Head, effects: Effects | None = None, entry: str | None = None) -> str:
    decision = Decision(Verdict.ALLOW, "rule.allowed", entry=entry, effects=effects or Effects())
    return "\n".join(risks(Policy(), head, decision))


def head(method: str = "GET", host: str = "a.example.com", **fields: bool) -> Head:
    return Head(method, "https", host, 443, "/", (), **fields)


def test_a_secret_that_goes_with_it_comes_first() -> None:
    needs = (InjectHeader("github", "authorization", "Bearer "),)
    assert told(head(), Effects(needs=needs)).startswith("the secret github is added")


def test_writing_and_reading_are_told_apart() -> None:
    assert "POST can send out any data" in told(head("POST"))
    assert "can send out any data" not in told(head())


def test_names_that_anybody_can_have() -> None:
    assert "anybody can register a name under github.io" in told(head(host="foo.github.io"))
    assert "anybody can register" not in told(head())
    assert "content from anybody" in told(head(host="gist.github.com"))


def test_wildcards_sockets_clear_text_and_addresses() -> None:
    assert "every host that *.example.com matches" in told(head(), entry="*.example.com")
    assert "WebSocket" in told(head(websocket=True))
    assert "clear text" in told(Head("GET", "http", "a.example.com", 80, "/"))
    assert "an address can change its owner" in told(head(host="8.8.8.8"))


def test_a_whole_entry_is_told_with_a_bound() -> None:
    rules = "".join(f"      - {{ id: r{n}, paths: [/{n}], websocket: true }}\n" for n in range(MAX_SHOWN + 2))
    paths = ", ".join(f"/{n}" for n in range(MAX_SHOWN + 1))
    text = (
        f"version: 1\nhosts:\n  a.example.com:\n    allow:\n{rules}"
        f"  b.example.com: {{ paths: [{paths}] }}\n  c.example.com: {{ allow: [] }}\n"
        "networks: [{ cidr: 192.0.2.0/24, allow: all }]\n"
    )
    policy = load([RuleText("hosts.yaml", text)]).policy
    assert policy is not None
    entries = {entry.key: entry for entry in policy.entries.values()}
    (many,) = opened(entries["a.example.com"], "here")
    assert many.startswith("every rule of the entry is opened here: any method and WebSockets /0; ")
    assert many.endswith("/7; and 2 more rules")
    (paths_alone,) = opened(entries["b.example.com"], "here")
    assert paths_alone.endswith("/7 and 1 more paths")
    (nothing,) = opened(entries["c.example.com"], "here")
    assert nothing.endswith("opened here: no rules yet")
    (network, _) = opened(policy.networks[0].entry, "here")
    assert network == "192.0.2.0/24 is opened here: every host that it matches, not only this one"
