"""Why a decision is what it is: every rule that was asked, and what each said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.rules.decide.explain import Explanation, explain
from egress.rules.decide.policy import Policy
from egress.types import Headers, Identity, Verdict
from tests.unit.rules.grant_samples import granted, with_profile
from tests.unit.rules.rule_samples import NOW, head, policy

RULES = policy(
    """\
    secrets:
      token: {from: "env:TOKEN", hosts: [api.example.com]}
      stand-in: {from: "file:/run/secrets/x", hosts: [api.example.com]}
    hosts:
      api.example.com:
        allow:
          - {id: read, methods: [GET, HEAD], paths: ["/a/**", "/b", "/c", "/d", "/e"]}
          - {id: old, methods: [GET], expires: 2020-01-01}
          - {id: json, methods: [POST], content_type: [application/json]}
          - {id: typed, methods: [PUT], query: {kind: "x*"}, headers: {x-a: "1", x-b: {absent: true}}}
          - {id: live, paths: [/live], websocket: true}
        deny:
          - {id: no-keys, paths: ["/a/keys/**"]}
          - {id: no-sockets, paths: ["/a/**"], websocket: true}
        inject:
          - {bearer: token, for: [read]}
          - placeholder: {secret: stand-in, like: uuid, in: ["header:x-key", path]}
      "*.example.com": {methods: [GET]}
      pinned.example.net: {intercept: never}
    deny:
      - {id: no-uploads, methods: [PATCH], hosts: ["**.example.com"]}
    """
)


def ask(
    request: str,
    *,
    headers: Headers = (),
    websocket: bool = False,
    rules: Policy = RULES,
    profile: str | None = None,
) -> Explanation:
    asked = head(request, headers=headers, websocket=websocket)
    return explain(rules, Identity("box", profile), asked, NOW)


def misses(answer: Explanation) -> dict[str, str]:
    return {item.ref.id: item.misses for item in answer.considered}


def test_the_decision_is_the_one_that_decide_makes() -> None:
    answer = ask("GET https://api.example.com/a/x")
    assert answer.decision.allowed
    assert str(answer.decision.rule) == "api.example.com#read"


def test_every_rule_that_was_asked_says_what_it_missed() -> None:
    answer = ask("GET https://api.example.com/x")
    assert misses(answer) == {
        "no-keys": "only paths /a/keys/**",
        "no-sockets": "only paths /a/**",
        "no-uploads": "only methods PATCH",
        "read": "only paths /a/**, /b, /c and 2 more",
        "old": "the rule has expired",
        "json": "only methods POST",
        "typed": "only methods PUT",
        "live": "only paths /live",
    }
    assert not any(item.fits for item in answer.considered)


def test_denies_come_before_allows_and_those_of_other_entries_and_of_the_top_are_there() -> None:
    kinds = [item.kind for item in ask("GET https://api.example.com/x").considered]
    assert kinds == [Verdict.DENY] * 3 + [Verdict.ALLOW] * 5


@pytest.mark.parametrize(
    ("request_line", "headers", "websocket", "rule", "says"),
    [
        ("GET https://api.example.com/a/x", (), False, "read", ""),
        ("GET https://api.example.com/a/keys/1", (), False, "no-keys", ""),
        ("GET https://api.example.com/a/x", (), True, "no-sockets", ""),
        ("GET https://api.example.com/a/x", (), False, "no-sockets", "only WebSockets"),
        ("GET https://api.example.com/a/x", (), True, "read", "the request asks for a WebSocket"),
        ("GET https://api.example.com/live", (), True, "live", ""),
        ("POST https://api.example.com/x", (), False, "json", "only with content type application/json"),
        ("POST https://api.example.com/x", (("content-type", "application/json"),), False, "json", ""),
        (
            "PUT https://api.example.com/x?kind=y",
            (),
            False,
            "typed",
            "only with query kind: x*, header x-a: 1, header x-b absent",
        ),
        ("PUT https://api.example.com/x?kind=xy", (("x-a", "1"),), False, "typed", ""),
    ],
)
def test_a_rule_names_the_first_thing_that_does_not_fit(
    request_line: str, headers: Headers, websocket: bool, rule: str, says: str
) -> None:
    assert misses(ask(request_line, headers=headers, websocket=websocket))[rule] == says


def test_an_escaped_slash_is_named_where_no_rule_takes_it() -> None:
    rules = policy(
        """\
        hosts:
          a.example.com:
            allow:
              - {id: plain, paths: ["/a/**"]}
              - {id: data, paths: ["/b/**"], encoded_slash: data}
        """
    )
    said = misses(ask("GET https://a.example.com/a/x%2Fy", rules=rules))
    assert said["plain"] == "the path contains %2F and the rule has no `encoded_slash: data`"


def test_an_escaped_slash_is_no_obstacle_where_no_rule_looks_at_paths() -> None:
    rules = policy("hosts: {a.example.com: {allow: [{id: any}]}}")
    answer = ask("GET https://a.example.com/@acme%2fwidgets", rules=rules)
    assert (answer.decision.code, misses(answer)) == ("rule.allowed", {"any": ""})


def test_what_would_be_injected_is_named_with_its_place_and_source() -> None:
    injected = ask("GET https://api.example.com/a/x").injected
    assert [(i.secret, i.slots, i.source, i.is_placeholder) for i in injected] == [
        ("token", ("header:authorization",), "env", False),
        ("stand-in", ("header:x-key", "path"), "file", True),
    ]


def test_all_entries_that_name_the_host_are_told_the_chosen_one_first() -> None:
    answer = ask("GET https://api.example.com/a/x")
    assert [entry.key for entry in answer.entries] == ["api.example.com", "*.example.com"]
    assert answer.entry is answer.entries[0]


def test_a_host_that_no_entry_names_has_none_and_similar_ones_are_told() -> None:
    answer = ask("GET https://api.exmaple.com/")
    assert answer.entry is None
    assert answer.near == ("api.example.com",)
    assert ask("GET https://unlike.test/").near == ()
    assert ask("GET https://api.example.com/").near == ()


def test_an_ambiguous_path_says_why() -> None:
    answer = ask("GET https://api.example.com/a/../b")
    assert answer.decision.code == "path.ambiguous"
    assert answer.reason == "the path has a . or .. segment"
    assert answer.considered == ()
    assert ask("GET https://api.example.com/x").reason == ""


def test_where_bytes_pass_unread_no_rule_is_asked() -> None:
    answer = ask("GET https://pinned.example.net/")
    assert answer.decision.allowed
    assert answer.considered == ()


# What is not in force --------------------------------------------------------------------------------


def test_an_expired_entry_says_so_for_each_of_its_rules() -> None:
    rules = policy("hosts: {a.example.com: {expires: 2020-01-01}}")
    answer = ask("GET https://a.example.com/", rules=rules)
    assert answer.decision.code == "host.closed"
    assert misses(answer) == {"host": "the entry has expired"}


PROFILES = policy(
    """\
    hosts:
      a.example.com: {allow: [{id: one, methods: [GET]}, {id: two, methods: [POST]}]}
      b.example.com: {}
    profiles:
      default: {hosts: [a.example.com], rules: ["a.example.com#one"]}
      wide: {hosts: [a.example.com, b.example.com]}
    """
)


@pytest.mark.parametrize(
    ("request_line", "profile", "said"),
    [
        (
            "POST https://a.example.com/",
            None,
            {"one": "only methods GET", "two": "the profile does not include the rule"},
        ),
        ("POST https://a.example.com/", "wide", {"one": "only methods GET", "two": ""}),
        ("GET https://b.example.com/", None, {"host": "the profile does not include the host"}),
        ("GET https://b.example.com/", "no-such", {"host": "the profile does not include the host"}),
    ],
)
def test_a_profile_says_what_it_leaves_out(
    request_line: str, profile: str | None, said: dict[str, str]
) -> None:
    assert misses(ask(request_line, rules=PROFILES, profile=profile)) == said


def test_the_profile_that_is_asked_for_is_told() -> None:
    assert ask("GET https://a.example.com/", rules=PROFILES).profile == "default"
    assert ask("GET https://a.example.com/", rules=PROFILES, profile="wide").profile == "wide"
    assert ask("GET https://api.example.com/").profile is None


# Whatever is asked ------------------------------------------------------------------------------------

METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "get", "", "CONNECT"])
HOSTS = st.sampled_from(
    ["api.example.com", "x.example.com", "pinned.example.net", "other.test", "10.0.0.1", "A.b"]
)
PATHS = st.sampled_from(["/a/x", "/a/keys/1", "/x?kind=xy", "/live", "/a/../b", "/%2f", "*", "", "/a//b"])
HEADERS = st.lists(st.sampled_from([("content-type", "application/json"), ("x-a", "1"), ("x-b", "")])).map(
    tuple
)


@given(method=METHODS, host=HOSTS, path=PATHS, headers=HEADERS, websocket=st.booleans())
def test_the_explanation_agrees_with_the_decision(
    method: str, host: str, path: str, headers: Headers, websocket: bool
) -> None:
    """The rule that decided is among those that fit; where a deny fits, nothing is allowed."""
    answer = ask(f"{method} https://{host}{path}", headers=headers, websocket=websocket)
    fitting = [item for item in answer.considered if item.fits]
    rule = answer.decision.rule
    if rule is not None and answer.considered:
        assert rule in [item.ref for item in fitting]
    if any(item.kind is Verdict.DENY for item in fitting):
        assert not answer.decision.allowed
    if answer.decision.code == "rule.none":
        assert not any(item.kind is Verdict.ALLOW for item in fitting)


DELEGATING = policy("""
    hosts: {a.example: {allow: [{id: read, methods: [GET]}]}, b.example: {}}
    profiles: {default: {hosts: [a.example]}, wide: {hosts: [a.example, b.example]}}
    delegate:
      - {id: x, to: {sandboxes: [box]}, ttl: 600, hosts: [a.example, c.example], profiles: [wide]}
""")


def test_grants_are_among_the_rules_that_were_considered() -> None:
    rules = granted(DELEGATING, "allow", "a.example", methods=["PUT"], paths=["/a/**"])
    rules = granted(rules, "deny", "a.example", paths=["/no"])
    found = misses(ask("PUT https://a.example/b", rules=rules))
    assert found == {"g-1": "only paths /no", "read": "only methods GET", "g-0": "only paths /a/**"}
    answer = ask("PUT https://a.example/a/1", rules=rules)
    assert str(answer.decision.rule) == "grant#g-0"
    assert ask("GET https://a.example//x", rules=rules).reason


def test_the_profile_that_was_chosen_is_named() -> None:
    assert ask("GET https://b.example/", rules=DELEGATING).profile == "default"
    answer = ask("GET https://b.example/", rules=with_profile(DELEGATING, "wide"))
    assert (answer.profile, answer.decision.allowed) == ("wide", True)
