"""Lines 10 to 16 of docs/reference/language.md: rules, their predicates, and the canonical path."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from egress.rules.decide.decision import decide
from egress.types import Cookies, Identity, Redirects, Scrub
from tests.unit.rules.rule_samples import NOW, ask, decision_text, errors, head, policy

HOST = "https://a.example.com"


def entry(*allow: str, deny: str = "") -> str:
    """A rule file with one entry of these allow rules."""
    rules = "".join(f"      - {{{rule}}}\n" for rule in allow)
    denies = f"    deny: [{deny}]\n" if deny else ""
    listed = f"    allow:\n{rules}" if allow else "    allow: all\n"
    return f"hosts:\n  a.example.com:\n{listed}{denies}"


def says(rule: str, target: str, **given: str) -> bool:
    """Whether an allow rule lets `GET target` through."""
    return ask(policy(entry(f"id: it, {rule}")), f"GET {HOST}{target}").allowed


def denied(rule: str, target: str) -> bool:
    """Whether a deny rule on a whole host stops `GET target`."""
    return ask(policy(entry(deny=f"{{id: it, {rule}}}")), f"GET {HOST}{target}").code == "rule.denied"


def test_10_shows_a_rule_as_key_and_id() -> None:
    decision = ask(policy(entry("id: read")), f"GET {HOST}/")
    assert str(decision.rule) == "a.example.com#read"
    assert str(decision.place) == "hosts.yaml:4:9"


def test_10_a_rule_needs_an_id() -> None:
    (found,) = errors(entry("methods: [GET]"))
    assert found.startswith("hosts.yaml:4:9: the key `id` is missing (Name of the rule")


@pytest.mark.parametrize("name", ["Read", "1st", "a_b", "a b", "", "ab-" * 22, "-a", "ä"])
def test_10_refuses_what_is_no_id(name: str) -> None:
    shown = name if len(name) <= 60 else name[:57] + "..."
    assert errors(entry(f'id: "{name}"')) == [
        (
            f"hosts.yaml:4:14: `{shown}` is not a rule id (ids are"
            f" lower case: a letter, then letters, digits and -)"
        )
    ]


@pytest.mark.parametrize(
    ("text", "place", "first"),
    [
        (entry("id: one", "id: one"), "5:14", "4:9"),
        (entry("id: one", deny="{id: one, methods: [GET]}"), "5:17", "4:9"),
        (entry(deny="{id: one, methods: [GET]}, {id: one, methods: [PUT]}"), "4:44", "4:12"),
        (entry(deny="{id: host, methods: [GET]}").replace("one", "host"), "4:17", "2:3"),
        ("deny: [{id: one, methods: [GET]}, {id: one, methods: [PUT]}]\n", "1:40", "1:8"),
    ],
)
def test_10_an_id_is_unique_over_allow_and_deny(text: str, place: str, first: str) -> None:
    (found,) = errors(text)
    name = "host" if "id: host" in text else "one"
    assert found == (
        f"hosts.yaml:{place}: duplicate id `{name}` (first at hosts.yaml:{first})"
        " (give each rule of an entry its own id)"
    )


def test_10_the_same_id_may_stand_in_two_entries() -> None:
    policy("hosts: {a.example.com: {allow: [{id: x}]}, b.example.com: {allow: [{id: x}]}}")


@pytest.mark.parametrize("deny", ["{id: all}", "{id: all, encoded_slash: data}"])
def test_10_a_deny_needs_a_predicate(deny: str) -> None:
    assert errors(entry(deny=deny)) == [
        'hosts.yaml:4:12: a deny rule needs at least one predicate (to deny everything write paths: ["/**"])'
    ]


def test_11_predicates_are_joined_by_and_and_values_by_or() -> None:
    rules = policy(entry('id: it, methods: [GET, PUT], paths: [/x, /y], headers: {a: "1"}'))
    fits = {"headers": (("a", "1"),)}
    for method, path in itertools.product(("GET", "PUT"), ("/x", "/y")):
        assert ask(rules, f"{method} {HOST}{path}", headers=fits["headers"]).allowed
    assert not ask(rules, f"POST {HOST}/x", headers=fits["headers"]).allowed
    assert not ask(rules, f"GET {HOST}/z", headers=fits["headers"]).allowed
    assert not ask(rules, f"GET {HOST}/x").allowed


def test_11_any_matching_deny_denies() -> None:
    rules = policy(entry("id: all", deny="{id: one, paths: [/x]}, {id: two, methods: [PUT]}"))
    assert decision_text(rules, f"GET {HOST}/x") == "deny one"
    assert decision_text(rules, f"PUT {HOST}/y") == "deny two"
    assert decision_text(rules, f"GET {HOST}/y") == "allow all"


def test_11_reports_the_first_matching_allow_of_the_file() -> None:
    assert decision_text(policy(entry("id: one", "id: two")), f"GET {HOST}/") == "allow one"
    assert decision_text(policy(entry("id: two", "id: one")), f"GET {HOST}/") == "allow two"
    assert decision_text(policy(entry("id: no, methods: [PUT]", "id: two")), f"GET {HOST}/") == "allow two"
    assert decision_text(policy(entry("id: paths, paths: [/x]", "id: two")), f"GET {HOST}/x") == "allow paths"
    assert decision_text(policy(entry("id: two", "id: paths, paths: [/x]")), f"GET {HOST}/x") == "allow two"


@pytest.mark.parametrize(
    ("key", "values", "strictest"),
    [
        ("scrub", ("off", "mask", "block"), Scrub.BLOCK),
        ("scrub", ("off", "mask"), Scrub.MASK),
        ("redirects", ("pass", "same-host", "deny"), Redirects.DENY),
        ("redirects", ("signed", "pass"), Redirects.PASS),
        ("redirects", ("signed", "same-host"), Redirects.SAME_HOST),
        ("cookies", ("pass", "drop"), Cookies.DROP),
    ],
)
def test_11_the_strictest_of_all_matching_rules_wins_in_any_order(
    key: str, values: tuple[str, ...], strictest: object
) -> None:
    for order in itertools.permutations(values):
        rules = policy(entry(*(f"id: r{n}, {key}: {value}" for n, value in enumerate(order))))
        assert getattr(ask(rules, f"GET {HOST}/").effects, key) == strictest


def test_11_every_limit_of_every_matching_rule_counts() -> None:
    rules = policy(
        entry(
            "id: one, limits: {requests: 1/second}",
            "id: two, paths: [/x], limits: {requests: 2/second}",
            "id: three, paths: [/y], limits: {requests: 3/second}",
        )
        + "    limits: {requests: 4/second}\nlimits: {requests: 5/second}\n"
    )
    counts = [limit.requests.count for limit in ask(rules, f"GET {HOST}/x").effects.limits if limit.requests]
    assert counts == [5, 4, 1, 2]


def test_11_a_rule_without_a_value_takes_the_one_of_the_entry() -> None:
    text = entry("id: own, paths: [/own], scrub: off", "id: none, paths: [/none]") + "    scrub: block\n"
    rules = policy(text)
    assert ask(rules, f"GET {HOST}/own").effects.scrub is Scrub.OFF
    assert ask(rules, f"GET {HOST}/none").effects.scrub is Scrub.BLOCK


def test_12_methods_are_exact_and_get_does_not_imply_head() -> None:
    rules = policy(entry("id: it, methods: [GET, PROPFIND]"))
    assert decision_text(rules, f"GET {HOST}/") == "allow it"
    assert decision_text(rules, f"PROPFIND {HOST}/") == "allow it"
    assert decision_text(rules, f"HEAD {HOST}/") == "deny rule.none"
    assert decision_text(rules, f"get {HOST}/") == "deny method.refused"
    assert decision_text(rules, f"propfind {HOST}/") == "deny method.refused"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "CONNECT",
            "CONNECT is never forwarded: a tunnel inside the connection is never allowed (remove it)",
        ),
        ("TRACE", "TRACE is never forwarded: it would return the injected credential (remove it)"),
        ("trace", "TRACE is never forwarded: it would return the injected credential (remove it)"),
        ("get", "`get` must be upper case (write GET)"),
        ('"GET PUT"', "`GET PUT` is not a method (methods are single words such as GET)"),
        ('""', "`` is not a method (methods are single words such as GET)"),
    ],
)
def test_12_refuses_methods_that_can_never_be(method: str, message: str) -> None:
    assert errors(entry(f"id: it, methods: [{method}]")) == [f"hosts.yaml:4:28: {message}"]
    assert [line.split(": ", 1)[1] for line in errors(entry(deny=f"{{id: it, methods: [{method}]}}"))] == [
        message
    ]


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "connect", "Trace"])
def test_12_never_forwards_connect_and_trace(method: str) -> None:
    assert decision_text(policy("hosts: {a.example.com: {}}"), f"{method} {HOST}/") == "deny method.refused"


def test_12_a_rule_matches_an_upgrade_only_with_websocket() -> None:
    rules = policy(entry("id: plain, paths: [/plain]", "id: socket, paths: [/socket], websocket: true"))
    assert decision_text(rules, f"GET {HOST}/plain", websocket=True) == "deny rule.websocket"
    assert decision_text(rules, f"GET {HOST}/socket", websocket=True) == "allow socket"
    assert decision_text(rules, f"GET {HOST}/socket") == "allow socket"
    assert decision_text(rules, f"GET {HOST}/neither", websocket=True) == "deny rule.none"


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        # A handshake is a GET; a client that is told of other requests goes on with them.
        ("methods: [POST], paths: [/answers]", "rule.websocket"),
        ("methods: [POST, PUT]", "rule.websocket"),
        ("methods: [POST], paths: [/other]", "rule.none"),
        ("methods: [POST], expires: 2020-01-01", "rule.none"),
    ],
)
def test_12_an_upgrade_is_told_of_requests_by_other_methods(rule: str, code: str) -> None:
    rules = policy(entry(f"id: it, {rule}", "id: live, methods: [HEAD], paths: [/x]"))
    assert decision_text(rules, f"GET {HOST}/answers", websocket=True) == f"deny {code}"
    assert decision_text(rules, f"GET {HOST}/answers") == "deny rule.none"


def test_12_an_upgrade_is_not_told_of_rules_that_the_profile_leaves_out() -> None:
    text = entry("id: it, methods: [POST]", "id: live, methods: [HEAD], paths: [/x]")
    profiles = 'profiles: {default: {hosts: [a.example.com], rules: ["a.example.com#live"]}}'
    asked = replace(head(f"GET {HOST}/answers"), websocket=True)
    assert decide(policy(text), Identity("box"), asked, NOW).code == "rule.websocket"
    assert decide(policy(f"{text}\n{profiles}"), Identity("box"), asked, NOW).code == "rule.none"


@pytest.mark.parametrize("keys", ["", "allow: all", "methods: [GET]"])
def test_12_an_entry_without_a_list_takes_websocket_from_the_entry(keys: str) -> None:
    extra = f"{keys}, " if keys else ""
    without = policy(f"hosts: {{a.example.com: {{{keys}}}}}")
    with_it = policy(f"hosts: {{a.example.com: {{{extra}websocket: true}}}}")
    assert decision_text(without, f"GET {HOST}/", websocket=True) == "deny rule.websocket"
    assert decision_text(with_it, f"GET {HOST}/", websocket=True) == "allow host"
    assert decision_text(with_it, f"GET {HOST}/") == "allow host"


@pytest.mark.parametrize("key", ["websocket: true", "encoded_slash: data"])
def test_12_websocket_beside_a_list_is_an_error(key: str) -> None:
    name = key.split(":", maxsplit=1)[0]
    assert errors(entry("id: it") + f"    {key}\n") == [
        (
            f"hosts.yaml:5:5: `{name}` cannot be combined with a list of"
            " allow rules (move it into the rules it is meant for)"
        )
    ]


def test_12_on_a_deny_websocket_narrows_it_to_upgrades() -> None:
    rules = policy("hosts: {a.example.com: {allow: all, websocket: true, deny: [{id: no, websocket: true}]}}")
    assert decision_text(rules, f"GET {HOST}/", websocket=True) == "deny no"
    assert decision_text(rules, f"GET {HOST}/") == "allow host"


@pytest.mark.parametrize(
    "name", ["x-http-method-override", "x-http-method", "x-method-override", "x_http_method_override"]
)
def test_12_refuses_a_header_that_overrides_the_method(name: str) -> None:
    rules = policy(entry("id: it, methods: [POST]"))
    assert decision_text(rules, f"POST {HOST}/") == "allow it"
    assert decision_text(rules, f"POST {HOST}/", headers=((name, "DELETE"),)) == "deny method.override"


@pytest.mark.parametrize(
    "query",
    [
        "_method=PUT",
        "a=1&_method=PUT",
        "a;_method=PUT",
        "%5Fmethod=PUT",
        "_METHOD=PUT",
        "_%6dethod",
        ".method=PUT",
        "_method%00x=PUT",
        "+_method=PUT",
    ],
)
def test_12_refuses_a_query_that_overrides_the_method(query: str) -> None:
    rules = policy(entry("id: it, methods: [POST]"))
    assert decision_text(rules, f"POST {HOST}/?{query}") == "deny method.override"


@pytest.mark.parametrize("query", ["payment_method=card", "method=x", "a=_method", "a=_method%3D1"])
def test_12_a_parameter_that_only_sounds_like_it_passes(query: str) -> None:
    assert decision_text(policy(entry("id: it, methods: [POST]")), f"POST {HOST}/?{query}") == "allow it"


def test_12_nothing_is_overridden_where_no_rule_names_methods() -> None:
    rules = policy("hosts: {a.example.com: {}}")
    assert (
        decision_text(rules, f"POST {HOST}/?_method=PUT", headers=(("x-http-method", "PUT"),)) == "allow host"
    )


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("/a", ["/a"], ["/", "/a/", "/A", "/ab", "/a/b"]),
        ("/a/*", ["/a/b", "/a/b.c"], ["/a", "/a/", "/a/b/", "/a/b/c"]),
        ("/a/x*", ["/a/x", "/a/xy"], ["/a/", "/a/y", "/a/x/y"]),
        ("/a/*x", ["/a/x", "/a/yx"], ["/a/xy", "/a/"]),
        ("/a/x*y*z", ["/a/xyz", "/a/x1y2z"], ["/a/xzy", "/a/xz"]),
        ("/a*/b", ["/a/b", "/aa/b"], ["/a/c/b"]),
        ("/a/**", ["/a", "/a/", "/a/b", "/a/b/c/"], ["/ab", "/"]),
        ("/**", ["/", "/a", "/a/b/"], []),
        ("/a/**/b", ["/a/b", "/a/x/b", "/a/x/y/b"], ["/a", "/ab", "/a/xb", "/a/b/c"]),
        ("/**/b", ["/b", "/a/b", "/a/a/b"], ["/a", "/b/", "/ab"]),
        ("/a/**/b/**/c", ["/a/b/c", "/a/b/b/x/c", "/a/x/b/c"], ["/a/c/b", "/a/b"]),
        ("/a/**/*/c", ["/a/b/c", "/a/b/b/c"], ["/a/c"]),
        ("/", ["/"], ["/a"]),
        ("/a/", ["/a/"], ["/a"]),
        ("/**/", ["/", "/a/"], ["/a"]),
        ("/x.y+z", ["/x.y+z"], ["/xay+z", "/x.yyz"]),
    ],
)
def test_13_path_patterns_fit_whole_paths(pattern: str, fitting: list[str], other: list[str]) -> None:
    rules = policy(entry(f'id: it, paths: ["{pattern}"]'))
    assert [path for path in fitting if not ask(rules, f"GET {HOST}{path}").allowed] == []
    assert [path for path in other if ask(rules, f"GET {HOST}{path}").allowed] == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a", "a path pattern must begin with a slash (put a / in front of it)"),
        ("", "a path pattern must begin with a slash (put a / in front of it)"),
        ("*", "a path pattern must begin with a slash (put a / in front of it)"),
        ("/a**", "** must be a whole segment (use * for a part of a segment)"),
        ("/a/**b/c", "** must be a whole segment (use * for a part of a segment)"),
        ("/***", "** must be a whole segment (use * for a part of a segment)"),
        ("/a?b=c", "a path pattern cannot contain a query (use `query:` for parameters)"),
        ("/a\\\\b", "a path pattern cannot contain a backslash (paths use /)"),
    ],
)
def test_13_refuses_a_pattern_that_is_none(pattern: str, message: str) -> None:
    assert errors(entry(f'id: it, paths: ["{pattern}"]')) == [f"hosts.yaml:4:26: {message}"]


@pytest.mark.parametrize(
    "pattern", ["/a/../b", "/a//b", "/a;b", "/a#b", "/a b", "/a%2Fb", "/%zz", "/%25ab", "/./a"]
)
def test_13_refuses_a_pattern_that_no_canonical_path_can_match(pattern: str) -> None:
    (found,) = errors(entry(f'id: it, paths: ["{pattern}"]'))
    assert found.startswith("hosts.yaml:4:26: no canonical path can match this pattern: the path ")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/**/a/**/a/**/a/**/a/**/b", "/a" * 4000),
        ("/*a*a*a*a*a*a*a*a*a*b", "/" + "a" * 16000),
        ("/**/*a*a*a*b/**/c", "/" + "a" * 8000 + "/a" * 2000),
    ],
)
def test_13_the_worst_path_is_decided_without_blowing_up(pattern: str, path: str) -> None:
    assert not says(f'paths: ["{pattern}"]', path)
    assert not denied(f'paths: ["{pattern}"]', path)


@pytest.mark.parametrize(
    ("sent", "forwarded"),
    [
        ("/%61%2D%2e%5F%7E", "/a-._~"),
        ("/%c3%a9", "/%C3%A9"),
        ("/\xc3\xa9", "/%C3%A9"),
        ('/"<>^`{|}', "/%22%3C%3E%5E%60%7B%7C%7D"),
        ("/a%3ab", "/a%3Ab"),
        ("/a:b@c!$&'()*+,=", "/a:b@c!$&'()*+,="),
        ("/[a]", "/[a]"),
        ("/a?q=%61%2f#".removesuffix("#"), "/a?q=%61%2f"),
        ("/%25", "/%25"),
        ("/100%25zz", "/100%25zz"),
        ("/my%20notes/a%20b%20c.txt", "/my%20notes/a%20b%20c.txt"),
    ],
)
def test_14_forwards_the_canonical_spelling(sent: str, forwarded: str) -> None:
    decision = ask(policy("hosts: {a.example.com: {}}"), f"GET {HOST}{sent}")
    assert (decision.code, decision.target) == ("rule.allowed", forwarded)


AMBIGUOUS = [
    "", "a", "a.example.com", "http://a.example.com/", "https://a.example.com/", "*", "*/", "?a",
    "/a\x00", "/a\x1f", "/a\x7f", "/a b", "/a\tb", "/a\nb", "/a%00", "/a%0a", "/a%7F",
    "/%20a", "/a%20", "/a%20/b", "/a/%20b", "/%20", "/a%20.", "/.%20./b", "/a%20..", "/a%20;b", "/a%20%3Bb",
    "/a#b", "/a%23b", "/a\\b", "/a%5Cb", "/a%5cb",
    "/%", "/%4", "/%zz", "/%u002e", "/%%41",
    "/%252e", "/%2541", "/%25%34%31",
    "/.", "/..", "/a/.", "/a/..", "/./a", "/../a", "/a/../b", "/%2e%2e/a", "/.%2E", "/a/%2e/b",
    "/a%2F", "/a%2F/b", "/a/%2fb", "/a%2f%2Fb",
    "/%c0%ae%c0%ae/a", "/%c0%af", "/\xc0\xaf", "/%e0%80%af", "/%f0%80%80%af",
    "/\u0100", "/a?b c", "/a?b#c", "/a?\x00", "/a?\u0100",
]  # fmt: skip


@pytest.mark.parametrize("target", AMBIGUOUS)
def test_14_refuses_an_ambiguous_path_even_on_a_whole_host(target: str) -> None:
    rules = policy("hosts: {a.example.com: {}}")
    asked = replace(head(f"GET {HOST}/"), target=target)
    assert decide(rules, Identity("box"), asked, NOW).code == "path.ambiguous"


def test_14_refuses_what_is_too_long() -> None:
    rules = policy("hosts: {a.example.com: {}}")
    assert ask(rules, f"GET {HOST}/{'a' * 16383}").allowed
    assert decision_text(rules, f"GET {HOST}/{'a' * 16384}") == "deny path.ambiguous"
    assert decision_text(rules, f"GET {HOST}/?{'a' * 16384}") == "deny path.ambiguous"


@pytest.mark.parametrize("target", ["/a//b", "//", "/a;b", "/a%3Bb", "/a%3bb", "/a/;/b"])
@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("hosts: {a.example.com: {}}", False),
        ('hosts: {a.example.com: {paths: ["/**"]}}', False),
        ('hosts: {a.example.com: {paths: ["/**", "/x"]}}', True),
        ('hosts: {a.example.com: {allow: [{id: x, paths: ["/x/**"]}, {id: y}]}}', True),
        ("hosts: {a.example.com: {allow: all, deny: [{id: x, paths: [/x]}]}}", True),
        ("hosts: {a.example.com: {}}\ndeny: [{id: x, paths: [/x]}]", True),
    ],
)
def test_14_empty_segments_and_semicolons_are_refused_where_rules_look_at_paths(
    text: str, strict: bool, target: str
) -> None:
    decision = ask(policy(text), f"GET {HOST}{target}")
    assert decision.code == ("path.ambiguous" if strict else "rule.allowed")


def test_14_encoded_slash_data_makes_it_one_character_of_a_segment() -> None:
    rules = policy(
        entry(
            'id: packages, paths: ["/@scope%2Fname", "/p/*"], encoded_slash: data',
            'id: other, paths: ["/o/*"]',
        )
    )
    assert ask(rules, f"GET {HOST}/@scope%2Fname").target == "/@scope%2Fname"
    assert decision_text(rules, f"GET {HOST}/@scope%2fname") == "allow packages"
    assert decision_text(rules, f"GET {HOST}/@scope/name") == "deny rule.none"
    assert decision_text(rules, f"GET {HOST}/p/a%2Fb") == "allow packages"
    assert decision_text(rules, f"GET {HOST}/p/a/b") == "deny rule.none"
    assert decision_text(rules, f"GET {HOST}/o/a%2Fb") == "deny rule.none"
    assert decision_text(rules, f"GET {HOST}/o/a") == "allow other"


@pytest.mark.parametrize(
    "target", ["/p/%2F..%2Fx", "/p/..%2F", "/p%2F.", "/p/.%2E%2Fx", "/p%2F..", "/p/%252F"]
)
def test_14_encoded_slash_does_not_smuggle_dots(target: str) -> None:
    rules = policy(entry('id: it, paths: ["/p/**"], encoded_slash: data'))
    assert decision_text(rules, f"GET {HOST}{target}") == "deny path.ambiguous"


@pytest.mark.parametrize("target", ["/@acme%2fwidgets", "/@acme%2Fwidgets"])
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("hosts: {a.example.com: {}}", "allow host"),
        ("hosts: {a.example.com: {methods: [GET]}}", "allow host"),
        ('hosts: {a.example.com: {paths: ["/**"]}}', "allow host"),
        ("hosts: {a.example.com: {allow: all, deny: [{id: x, methods: [PUT]}]}}", "allow host"),
        ("hosts: {a.example.com: {allow: [{id: x}]}}\nmode: observe", "allow x"),
        ("hosts: {a.example.com: {allow: [{id: x}, {id: y, methods: [GET]}]}}", "allow x"),
        # Where a verdict depends on paths, a reading of `%2F` could change it.
        ('hosts: {a.example.com: {paths: ["/*"]}}', "deny path.ambiguous"),
        ("hosts: {a.example.com: {allow: all, deny: [{id: x, paths: [/x]}]}}", "deny path.ambiguous"),
        ("hosts: {a.example.com: {}}\ndeny: [{id: x, paths: [/x]}]", "deny path.ambiguous"),
        (
            'hosts: {"*.example.com": {allow: all, deny: [{id: x, paths: [/x]}]}, a.example.com: {}}',
            "deny path.ambiguous",
        ),
        ('hosts: {a.example.com: {allow: [{id: x}, {id: y, paths: ["/y"]}]}}', "deny path.ambiguous"),
        # A key on one rule is a choice between the rules of the host.
        ("hosts: {a.example.com: {allow: [{id: x}, {id: y, encoded_slash: data}]}}", "allow y"),
        (
            "hosts: {a.example.com: {allow: [{id: x}, {id: y, methods: [PUT], encoded_slash: data}]}}",
            "deny rule.none",
        ),
    ],
)
def test_14_an_escaped_slash_passes_where_no_rule_looks_at_paths(
    text: str, verdict: str, target: str
) -> None:
    rules = policy(text)
    assert decision_text(rules, f"GET {HOST}{target}") == verdict
    if verdict.startswith("allow"):
        assert ask(rules, f"GET {HOST}{target}").target == "/@acme%2Fwidgets"


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {a.example.com: {encoded_slash: data}}",
        "hosts: {a.example.com: {allow: all, encoded_slash: data}}",
        "hosts: {a.example.com: {allow: all, encoded_slash: data, deny: [{id: x, paths: [/x]}]}}",
    ],
)
def test_14_encoded_slash_may_stand_on_a_whole_entry(text: str) -> None:
    assert decision_text(policy(text), f"GET {HOST}/a%2Fb") == "allow host"


def test_14_a_pattern_with_an_encoded_slash_needs_the_switch() -> None:
    assert errors(entry('id: it, paths: ["/a%2Fb"]')) == [
        (
            "hosts.yaml:4:26: no canonical path can match this pattern: the path has an escaped slash, and"
            " no rule of this host has `encoded_slash: data` (add `encoded_slash: data` to the rule)"
        )
    ]


@pytest.mark.parametrize(
    ("entry", "method", "code"),
    [
        ("{}", "OPTIONS", "rule.allowed"),
        ("{}", "GET", "path.ambiguous"),
        ("{methods: [OPTIONS]}", "OPTIONS", "rule.allowed"),
        ('{paths: ["/**"]}', "OPTIONS", "rule.none"),
        ('{paths: ["/*"]}', "OPTIONS", "rule.none"),
    ],
)
def test_14_options_star_matches_no_path(entry: str, method: str, code: str) -> None:
    asked = replace(head(f"{method} {HOST}/"), target="*")
    decision = decide(policy(f"hosts: {{a.example.com: {entry}}}"), Identity("box"), asked, NOW)
    assert (decision.code, decision.target) == (code, "" if code == "path.ambiguous" else "*")


def test_14_what_was_matched_is_what_is_forwarded() -> None:
    rules = policy(entry('id: it, paths: ["/é/**", "/~x"]'))
    assert ask(rules, f"GET {HOST}/\xc3\xa9/%7ea").target == "/%C3%A9/~a"
    assert ask(rules, f"GET {HOST}/%7Ex").target == "/~x"


def test_15_an_allow_matches_exactly() -> None:
    assert says("paths: [/user/keys]", "/user/keys")
    for path in ("/user/Keys", "/user/keys/", "/USER/KEYS"):
        assert not says("paths: [/user/keys]", path)


@pytest.mark.parametrize("path", ["/user/keys", "/User/KEYS", "/user/keys/", "/user/%6Beys", "/USER/KEYS/"])
def test_15_a_deny_matches_any_case_and_one_trailing_slash_more(path: str) -> None:
    assert denied("paths: [/user/keys]", path)


@pytest.mark.parametrize("path", ["/user/keys", "/user/keys/"])
def test_15_a_deny_with_a_trailing_slash_matches_without_it(path: str) -> None:
    assert denied("paths: [/user/keys/]", path)


@pytest.mark.parametrize("path", ["/user", "/user/key", "/user/keys/1", "/user/keyss"])
def test_15_a_deny_matches_nothing_else(path: str) -> None:
    assert not denied("paths: [/user/keys]", path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/v1/keys:rotate", "/v1/keys%3Arotate"),
        ("/v1/keys%3Arotate", "/v1/keys:rotate"),
        ("/a+b", "/a%2Bb"),
        ("/x[0]", "/x%5B0%5D"),
        ("/x%5B0%5D", "/x[0]"),
        ("/x%2Ay", "/x*y"),
        ("/x%2Ay", "/x%2ay"),
        ("/é", "/\xc3\xa9"),
        ("/é", "/%c3%a9"),
        ("/a/*", "/a/%2A"),
    ],
)
def test_15_a_deny_is_matched_on_every_reading_of_reserved_characters(pattern: str, path: str) -> None:
    assert denied(f'paths: ["{pattern}"]', path)


def test_15_a_deny_also_reads_an_encoded_slash_as_a_slash() -> None:
    rules = policy("""
        hosts:
          a.example.com: {allow: all, encoded_slash: data, deny: [{id: no, paths: ["/admin/**"]}]}
    """)
    assert decision_text(rules, f"GET {HOST}/admin%2Fx") == "deny no"
    assert decision_text(rules, f"GET {HOST}/Admin%2fx") == "deny no"
    assert decision_text(rules, f"GET {HOST}/a%2Fb") == "allow host"


@pytest.mark.parametrize(
    ("query", "allowed"),
    [
        ("?a=x1", True),
        ("?b=2&a=x1", True),
        ("?a=x1&a=x2", True),
        ("?%61=%781", True),
        ("?a=x+y", True),
        ("", False),
        ("?", False),
        ("?a=y", False),
        ("?a=x1&a=y", False),
        ("?A=x1", False),
        ("?a=X1", False),
        ("?a=x1&b=%zz", False),
    ],
)
def test_16_an_allow_wants_the_parameter_and_every_occurrence_to_match(query: str, allowed: bool) -> None:
    assert says('query: {a: "x*"}', f"/{query}") is allowed


@pytest.mark.parametrize(
    ("query", "is_denied"),
    [
        ("?a=x1", True),
        ("?a=y&a=x1", True),
        ("?a=y;a=x1", True),
        ("?A=X1", True),
        ("?%61=%781", True),
        ("?b=%zz", True),
        ("", False),
        ("?a=y", False),
        ("?b=x", False),
    ],
)
def test_16_a_deny_wants_any_occurrence_to_match(query: str, is_denied: bool) -> None:
    assert denied('query: {a: "x*"}', f"/{query}") is is_denied


def test_16_plus_is_a_space_and_text_is_utf_8() -> None:
    assert says('query: {q: "a b"}', "/?q=a+b")
    assert says('query: {q: "a b"}', "/?q=a%20b")
    assert not says('query: {q: "a b"}', "/?q=a%2Bb")
    assert says('query: {q: "é"}', "/?q=%c3%a9")
    assert denied('query: {q: "é*"}', "/?q=\xc3\xa9x")


def test_16_absent_wants_the_parameter_not_to_be_there() -> None:
    assert says("query: {a: {absent: true}}", "/?b")
    assert not says("query: {a: {absent: true}}", "/?a")
    assert denied("query: {a: {absent: true}}", "/?b")
    assert not denied("query: {a: {absent: true}}", "/?a")
    assert denied("query: {a: {absent: true}}", "/?A")


def test_16_headers_are_likewise() -> None:
    rules = policy(entry('id: it, headers: {x-a: "v*", x-b: {absent: true}}'))
    assert ask(rules, f"GET {HOST}/", headers=(("x-a", "v1"), ("x-a", "v2"))).allowed
    assert not ask(rules, f"GET {HOST}/", headers=(("x-a", "v1"), ("x-a", "w"))).allowed
    assert not ask(rules, f"GET {HOST}/", headers=(("x-a", "v1"), ("x-b", ""))).allowed
    assert not ask(rules, f"GET {HOST}/").allowed
    rules = policy(entry(deny='{id: no, headers: {x-a: "v*"}}'))
    assert not ask(rules, f"GET {HOST}/", headers=(("x-a", "w"), ("x-a", "V1"))).allowed
    assert ask(rules, f"GET {HOST}/", headers=(("x-a", "w"),)).allowed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("X-Api", "header names must be lower case (write x-api)"),
        ('"x api"', "`x api` is not a header name ()"),
        ("host", "the Host header always equals the destination (give the host its own entry)"),
    ],
)
def test_16_refuses_a_header_name_that_cannot_match(name: str, message: str) -> None:
    assert errors(entry(f'id: it, headers: {{{name}: "*"}}')) == [f"hosts.yaml:4:28: {message}"]


@pytest.mark.parametrize(
    ("sent", "allowed", "is_denied"),
    [
        ("application/json", True, True),
        ("Application/JSON; charset=utf-8", True, True),
        ("text/plain", True, True),
        ("image/png", False, False),
        ("application/json, text/plain", False, True),
        ("text/plain, image/png", False, True),
        ("", False, True),
    ],
)
def test_16_content_type_is_the_media_type_alone(sent: str, allowed: bool, is_denied: bool) -> None:
    types = "content_type: [application/json, 'text/*']"
    headers = (("content-type", sent),)
    assert ask(policy(entry(f"id: it, {types}")), f"POST {HOST}/", headers=headers).allowed is allowed
    rules = policy(entry(deny=f"{{id: it, {types}}}"))
    assert ask(rules, f"POST {HOST}/", headers=headers).allowed is not is_denied


def test_16_without_a_content_type_neither_allow_nor_deny_fits() -> None:
    assert not says("content_type: [text/plain]", "/")
    assert not denied("content_type: [text/plain]", "/")


@pytest.mark.parametrize("text", ["JSON", "Application/json", '"*/*"', "text/", "text/*x"])
def test_16_refuses_what_is_no_media_type(text: str) -> None:
    shown = text.strip('"')
    assert errors(entry(f"id: it, content_type: [{text}]")) == [
        (
            f"hosts.yaml:4:33: `{shown}` is not a media type"
            " (write it in lower case, such as application/json or text/*)"
        )
    ]


@pytest.mark.parametrize(
    "predicate", ["methods: []", "paths: []", "query: {}", "headers: {}", "content_type: []"]
)
def test_16_an_empty_predicate_is_an_error(predicate: str) -> None:
    (found,) = errors(entry(f"id: it, {predicate}"))
    assert found == "hosts.yaml:4:18: an empty list matches nothing (remove the key to match everything)"


def denying(reason: str) -> str:
    return f'hosts: {{a.example.com: {{allow: all, deny: [{{id: no, paths: [/no], reason: "{reason}"}}]}}}}\n'


def test_10_a_deny_may_say_why() -> None:
    decision = ask(policy(denying(" It is closed: ask Ann Müller. ")), "GET https://a.example.com/no")
    assert decision.rule is not None
    assert decision.rule.reason == "It is closed: ask Ann Müller."
    assert str(decision.rule) == "a.example.com#no"


@pytest.mark.parametrize(
    ("reason", "finding"),
    [
        ("", "a reason is one line of printable text, of at most 200 characters (shorten it)"),
        ("  ", "a reason is one line of printable text"),
        ("a\\nb", "a reason is one line of printable text"),
        ("a\\e[31mb", "a reason is one line of printable text"),
        ("a\\u202eb", "a reason is one line of printable text"),
        ("x" * 201, "a reason is one line of printable text"),
        ("ghp_" + "A1b2C3d4" * 5, "this reason looks like a credential (not shown) (sandboxes read reasons)"),
    ],
)
def test_10_a_reason_is_fit_for_a_sandbox_to_read(reason: str, finding: str) -> None:
    (found,) = errors(denying(reason))
    assert finding in found
    assert "ghp_" not in found


def test_10_an_allow_has_no_reason() -> None:
    text = 'hosts: {a.example.com: {allow: [{id: a, reason: "because"}]}}'
    assert "unknown key `reason`" in errors(text)[0]
