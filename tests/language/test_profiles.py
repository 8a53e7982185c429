"""Lines 32 to 34 of docs/reference/language.md: parts of the rules for kinds of sandboxes."""

from __future__ import annotations

import pytest

from tests.unit.rules.rule_samples import ask_host, decision_text, errors, policy

RULES = """
    hosts:
      a.example.com: {allow: [{id: read, methods: [GET]}, {id: write, methods: [PUT]}],
        deny: [{id: no, paths: [/x]}]}
      b.example.com: {}
      "*.example.com": {}
    networks: [{cidr: 10.0.0.0/8}]
    deny: [{id: never, paths: [/never]}]
    profiles:
      reader: {hosts: [a.example.com, b.example.com], rules: ["a.example.com#read"]}
      writer: {hosts: [a.example.com]}
      inside: {hosts: [10.0.0.0/8, "*.example.com"]}
      nothing: {hosts: []}
"""


@pytest.mark.parametrize(
    ("profile", "request_line", "outcome"),
    [
        ("reader", "GET https://a.example.com/", "allow read"),
        ("reader", "PUT https://a.example.com/", "deny rule.none"),
        ("reader", "PUT https://b.example.com/", "allow host"),
        ("writer", "PUT https://a.example.com/", "allow write"),
        ("writer", "GET https://b.example.com/", "deny profile.excluded"),
        ("inside", "GET https://10.0.0.1/", "allow host"),
        ("inside", "GET https://c.example.com/", "allow host"),
        ("nothing", "GET https://a.example.com/", "deny profile.excluded"),
    ],
)
def test_32_a_profile_lists_hosts_and_narrows_those_it_names_rules_of(
    profile: str, request_line: str, outcome: str
) -> None:
    assert decision_text(policy(RULES), request_line, profile=profile) == outcome


@pytest.mark.parametrize("request_line", ["GET https://a.example.com/x", "GET https://a.example.com/never"])
def test_32_deny_rules_hold_in_every_profile(request_line: str) -> None:
    assert decision_text(policy(RULES), request_line, profile="reader").startswith("deny n")


@pytest.mark.parametrize(
    ("profile", "finding"),
    [
        (
            "hosts: [aa.example.com]",
            "3:15: unknown entry `aa.example.com` (did you mean `a.example.com`?)",
        ),
        ("hosts: [A.example.com]", "3:15: unknown entry `A.example.com` (did you mean `a.example.com`?)"),
        (
            'hosts: [a.example.com], rules: ["a.example.com#reed"]',
            "3:39: the entry a.example.com has no allow rule `reed` (did you mean `read`?)",
        ),
        (
            'hosts: [a.example.com], rules: ["b.example.com#host"]',
            "3:39: the entry `b.example.com` is not in this profile (add it to `hosts` of the profile)",
        ),
        (
            "hosts: [a.example.com], rules: [read]",
            "3:39: `read` does not name a rule (write KEY#id, such as api.example.com#read)",
        ),
        ("{}", "3:3: the key `hosts` is missing"),
    ],
)
def test_32_says_what_is_wrong_with_a_profile(profile: str, finding: str) -> None:
    body = "" if profile == "{}" else profile
    text = (
        f"hosts: {{a.example.com: {{allow: [{{id: read}}]}},"
        f" b.example.com: {{}}}}\nprofiles:\n  p: {{{body}}}\n"
    )
    (found,) = errors(text)
    assert found.split(": ", 1)[1].startswith(finding.split(": ", 1)[1])
    assert found.startswith("hosts.yaml:3:")


def test_32_a_profile_has_a_plain_name() -> None:
    assert errors("profiles:\n  Big One: {hosts: []}\n") == [
        (
            "hosts.yaml:2:3: `Big One` is not a profile name"
            " (names are lower case: a letter, then letters, digits, - and _)"
        )
    ]


def test_32_a_profile_of_a_wrong_entry_is_not_blamed_for_it() -> None:
    (found,) = errors("hosts: {a.example.com: {methods: [TRACE]}}\nprofiles: {p: {hosts: [a.example.com]}}\n")
    assert "TRACE" in found


def test_33_the_entry_is_chosen_before_the_profile_is_asked() -> None:
    rules = policy(RULES)
    assert decision_text(rules, "GET https://b.example.com/", profile="inside") == "deny profile.excluded"
    assert ask_host(rules, "https://b.example.com", profile="inside").code == "profile.excluded"
    assert ask_host(rules, "https://c.example.com", profile="inside").allowed


def test_33_a_host_whose_narrowed_rules_are_none_is_closed() -> None:
    rules = policy("""
        hosts: {a.example.com: {allow: [{id: old, expires: 2020-01-01}, {id: new}]}}
        profiles: {p: {hosts: [a.example.com], rules: ["a.example.com#old"]}, q: {hosts: [a.example.com]}}
    """)
    assert ask_host(rules, "https://a.example.com", profile="p").code == "host.closed"
    assert ask_host(rules, "https://a.example.com", profile="q").allowed


def test_34_without_profiles_everyone_gets_the_policy() -> None:
    rules = policy("hosts: {a.example.com: {}}")
    for profile in (None, "default", "whatever"):
        assert decision_text(rules, "GET https://a.example.com/", profile=profile) == "allow host"


def test_34_without_a_name_it_is_default_and_without_default_it_is_denied() -> None:
    rules = policy(
        "hosts: {a.example.com: {}}\nprofiles: {default: {hosts: [a.example.com]}, p: {hosts: []}}"
    )
    assert decision_text(rules, "GET https://a.example.com/") == "allow host"
    assert decision_text(rules, "GET https://a.example.com/", profile="p") == "deny profile.excluded"
    rules = policy("hosts: {a.example.com: {}}\nprofiles: {p: {hosts: [a.example.com]}}")
    assert decision_text(rules, "GET https://a.example.com/") == "deny profile.unknown"
    assert ask_host(rules, "https://a.example.com").code == "profile.unknown"


@pytest.mark.parametrize("profiles", ["profiles: {}", "profiles: {p: {hosts: [a.example.com]}}"])
def test_34_an_unknown_profile_is_denied(profiles: str) -> None:
    rules = policy(f"hosts: {{a.example.com: {{}}}}\n{profiles}")
    assert decision_text(rules, "GET https://a.example.com/", profile="q") == "deny profile.unknown"
