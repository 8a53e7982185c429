"""Grants change what one sandbox may do, within the rules of the file and never beyond a denial of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.overlay import _MAX_ROUTES, Delegation
from egress.rules.decide.policy import Policy
from egress.types import Cookies, GrantRef, Identity, Place, Slot
from tests.unit.rules.grant_samples import BOX, TTL, granted, with_profile
from tests.unit.rules.rule_samples import NOW, ask, ask_host, decision_text, head, policy

RULES = policy("""
    secrets: {token: {from: "env:TOKEN", hosts: [api.example.com]}}
    limits: {request_body: 1 MiB}
    hosts:
      api.example.com:
        limits: {requests: 5/minute}
        allow: [{id: read, methods: [GET], paths: [/read/**]}]
        deny: [{id: no-keys, paths: ["/**/keys"]}]
        inject: [{bearer: token, strip: ["query:token"]}]
      closed.example.com: {allow: []}
      over.example.com: {expires: 2020-01-01}
      blind.example.com: {intercept: never}
      plain.example.com: {http: true, ports: [8443]}
    deny: [{id: never, hosts: ["**.evil.example"]}]
    delegate:
      - {id: all, to: {sandboxes: [box]}, ttl: 1h, hosts: ["**.example", "**.com"], ports: [443, 8443]}
""")


def test_a_host_that_no_rule_names_is_allowed_by_a_grant() -> None:
    rules = granted(RULES, "allow", "files.example", methods=["GET"], paths=["/public/**"])
    assert ask_host(RULES, "https://files.example").code == "host.unknown"
    assert ask_host(rules, "https://files.example").allowed
    found = ask(rules, "GET https://files.example/public/a")
    assert (found.allowed, str(found.rule), found.entry) == (True, "grant#g-0", None)
    assert found.rule == GrantRef("grant", "g-0", RULES.delegations[0].place, delegation="all")
    for other in ("PUT https://files.example/public/a", "GET https://files.example/private"):
        assert decision_text(rules, other) == "deny rule.none"
    assert ask_host(rules, "https://files.example:8443").code == "host.unknown"
    assert ask_host(rules, "http://files.example").code == "host.unknown"
    assert ask_host(rules, "https://x.files.example").code == "host.unknown"


def test_a_grant_is_for_one_sandbox_alone() -> None:
    rules = granted(RULES, "allow", "files.example")
    for other in (Identity("other"), Identity("box", "other-profile")):
        assert not decide_host(rules, other, "files.example", 443, NOW).allowed
        assert not decide(rules, other, head("GET https://files.example/"), NOW).allowed


def test_a_grant_ends_with_its_time() -> None:
    allowed, denied = granted(RULES, "allow", "files.example"), granted(RULES, "deny", "api.example.com")
    for moment, holds in ((NOW, True), (NOW + TTL - 1, True), (NOW + TTL, False)):
        assert ask_host(allowed, "https://files.example", at=moment).allowed is holds
        assert ask(allowed, "GET https://files.example/", at=moment).allowed is holds
        assert ask(denied, "GET https://api.example.com/read/1", at=moment).allowed is not holds


def test_a_request_that_only_a_grant_allows_gets_no_credential() -> None:
    rules = granted(RULES, "allow", "api.example.com", methods=["POST"], paths=["/write/**"])
    found = ask(rules, "POST https://api.example.com/write/1")
    assert found.allowed
    assert found.effects.needs == ()
    # A credential of the sandbox's own does not take the place of the one that is not injected.
    assert found.effects.strips == (Slot("header", "authorization"), Slot("query", "token"))
    assert found.effects.cookies is Cookies.DROP
    assert not found.effects.misplaced_pass
    # The limits of the file and of the host hold.
    assert [limit.place.line for limit in found.effects.limits] == [3, 6]


def test_a_request_that_the_file_allows_keeps_its_credential() -> None:
    rules = granted(RULES, "allow", "api.example.com")
    assert decision_text(rules, "GET https://api.example.com/read/1") == "allow read, inject token"
    assert ask(rules, "GET https://api.example.com/read/1") == ask(
        RULES, "GET https://api.example.com/read/1"
    )


@pytest.mark.parametrize(
    ("request_line", "outcome"),
    [
        ("GET https://api.example.com/a/keys", "deny no-keys"),
        ("GET https://x.evil.example/", "deny never"),
        ("GET https://closed.example.com/", "deny host.closed"),
        ("GET https://over.example.com/", "deny host.closed"),
        ("GET https://api.example.com:8443/", "deny host.port"),
        ("GET http://api.example.com/", "deny host.cleartext"),
        ("TRACE https://api.example.com/", "deny method.refused"),
        ("GET https://api.example.com/../x", "deny path.ambiguous"),
        ("GET https://10.0.0.1/", "deny host.literal"),
    ],
)
def test_a_grant_lifts_no_denial_of_the_file(request_line: str, outcome: str) -> None:
    rules = RULES
    for host in ("api.example.com", "**.evil.example", "closed.example.com", "over.example.com"):
        rules = granted(granted(rules, "allow", host), "allow", host, 8443)
    assert decision_text(rules, request_line) == outcome


def test_a_websocket_is_not_granted() -> None:
    rules = granted(RULES, "allow", "files.example")
    assert decision_text(rules, "GET https://files.example/", websocket=True) == "deny rule.websocket"


def test_a_profile_that_leaves_the_host_out_still_does() -> None:
    rules = policy("""
        hosts: {a.example: {}, b.example: {}}
        profiles: {default: {hosts: [a.example]}}
        delegate: [{id: all, to: {sandboxes: ["*"]}, ttl: 600, hosts: ["**.example"]}]
    """)
    assert decision_text(granted(rules, "allow", "b.example"), "GET https://b.example/") == (
        "deny profile.excluded"
    )


def test_observe_mode_of_a_file_goes_on_beside_a_grant() -> None:
    rules = granted(replace(RULES, mode="observe"), "allow", "files.example", paths=["/a"])
    assert ask(rules, "GET https://files.example/b").observed
    assert str(ask(rules, "GET https://files.example/a").rule) == "grant#g-0"


# Denies -------------------------------------------------------------------------------------------


def test_a_granted_deny_wins_over_every_allow() -> None:
    rules = granted(RULES, "allow", "api.example.com", paths=["/read/**"])
    rules = granted(rules, "deny", "api.example.com", paths=["/read/secret/**"])
    for spelling in ("/read/secret/1", "/READ/secret", "/read/%73ecret/1"):
        found = ask(rules, f"GET https://api.example.com{spelling}")
        assert (found.code, str(found.rule)) == ("rule.denied", "grant#g-1"), spelling
    assert ask(rules, "GET https://api.example.com/read/1").allowed


def test_a_granted_deny_of_a_whole_host_closes_it_on_every_port() -> None:
    rules = granted(RULES, "deny", "**.com")
    for url in ("https://api.example.com", "https://plain.example.com:8443", "http://plain.example.com"):
        assert ask_host(RULES, url).allowed
        found = ask_host(rules, url)
        assert (found.code, str(found.rule)) == ("rule.denied", "grant#g-0")


def test_a_granted_deny_closes_a_host_whose_requests_are_not_read() -> None:
    rules = granted(RULES, "deny", "blind.example.com", methods=["PUT"])
    assert ask_host(RULES, "https://blind.example.com").allowed
    assert ask_host(rules, "https://blind.example.com").code == "rule.denied"


# Profiles -----------------------------------------------------------------------------------------

PROFILED = policy("""
    hosts: {a.example: {}, b.example: {}}
    profiles: {default: {hosts: [a.example]}, wide: {hosts: [a.example, b.example]}}
    delegate: [{id: widen, to: {profiles: [default]}, ttl: 600, profiles: [wide]}]
""")


def test_a_chosen_profile_decides_until_its_time_is_over() -> None:
    rules = with_profile(PROFILED, "wide")
    assert decision_text(PROFILED, "GET https://b.example/") == "deny profile.excluded"
    assert decision_text(rules, "GET https://b.example/") == "allow host"
    assert decision_text(rules, "GET https://b.example/", at=NOW + TTL) == "deny profile.excluded"
    assert not decide_host(rules, Identity("other"), "b.example", 443, NOW).allowed


# The parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sandbox", "profile", "is_for"),
    [
        ("agent-1", "coding", True),
        ("agent-1", None, False),
        ("box", "coding", False),
        ("agent-", "coding", True),
    ],
)
def test_a_delegation_is_for_sandboxes_of_its_names_and_its_profiles(
    sandbox: str, profile: str | None, is_for: bool
) -> None:
    text = """
        hosts: {a.example: {}}
        profiles: {coding: {hosts: [a.example]}}
        delegate:
          - {id: x, to: {sandboxes: ["agent-*"], profiles: [coding]}, ttl: 60, hosts: [b.example]}
    """
    (delegation,) = policy(text).delegations
    assert delegation.is_for(Identity(sandbox, profile)) is is_for


def test_a_delegation_of_nothing_allows_nothing() -> None:
    bare = Delegation("x", Place("", 1, 1), 60)
    assert bare.is_for(BOX)
    assert not bare.kinds
    assert not bare.hosts


def test_a_sandbox_does_not_fill_the_cache_of_routes() -> None:
    rules: Policy = granted(RULES, "allow", "**.example")
    overlay = rules.overlays["box"]
    for number in range(_MAX_ROUTES + 3):
        assert ask_host(rules, f"https://n{number}.example").allowed
    assert len(overlay.routes) <= _MAX_ROUTES
    assert "routes" not in repr(overlay)
