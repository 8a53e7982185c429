"""What the verdicts carry, beside what docs/reference/language.md says about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.errors import CODES
from egress.rules.decide.decision import _MAX_ROUTES as MAX_ROUTES
from egress.rules.decide.decision import decide, decide_host, matching_entries, route_of
from egress.rules.decide.verdicts import deny_readings
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, ask, ask_host, head, policy

BOX = Identity("box")


def test_an_allowed_host_names_its_entry_and_what_holds_for_the_connection() -> None:
    rules = policy("hosts:\n  a.example: {http2: true, limits: {connections: 2}}\nlimits: {connections: 9}\n")
    decision = ask_host(rules, "https://a.example")
    assert (decision.code, decision.entry, str(decision.place)) == (
        "host.allowed",
        "a.example",
        "hosts.yaml:2:3",
    )
    assert decision.http2
    assert [limit.connections for limit in decision.limits] == [9, 2]


def test_a_name_alone_can_be_asked_for_without_a_port() -> None:
    rules = policy("hosts: {a.example: {ports: [8443]}, b.example: {allow: []}}")
    assert decide_host(rules, BOX, "a.example", None, NOW).allowed
    assert not decide_host(rules, BOX, "b.example", None, NOW).allowed
    assert not decide_host(rules, BOX, "c.example", None, NOW).allowed


def test_a_denial_names_its_rule_or_its_entry() -> None:
    rules = policy("hosts:\n  a.example:\n    methods: [GET]\n    deny: [{id: no, paths: [/x]}]\n")
    by_rule, by_entry = ask(rules, "GET https://a.example/x"), ask(rules, "PUT https://a.example/")
    assert (str(by_rule.rule), str(by_rule.place), by_rule.target) == (
        "a.example#no",
        "hosts.yaml:4:12",
        "/x",
    )
    assert (by_entry.rule, str(by_entry.place), by_entry.entry) == (None, "hosts.yaml:2:3", "a.example")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET https://b.example/",
        "TRACE https://a.example/",
        "GET https://a.example/..",
        "PUT https://a.example/",
        "GET https://a.example/x",
        "GET http://a.example/",
        "GET https://a.example:1/",
        "GET https://10.0.0.1/",
        "GET https://A/",
    ],
)
def test_every_code_of_a_denial_is_in_the_list(request_line: str) -> None:
    rules = policy("hosts: {a.example: {methods: [GET], deny: [{id: no, paths: [/x]}]}}")
    decision = ask(rules, request_line)
    assert decision.code in CODES
    assert not decision.allowed
    assert decision.effects.needs == ()


def test_a_tunnel_is_observed_when_it_has_expired_and_observing_says_so() -> None:
    rules = policy("mode: observe\nhosts: {a.example: {intercept: never, expires: 2020-01-01}}")
    assert ask(rules, "GET https://a.example/").observed
    assert ask_host(rules, "https://a.example").observed


def test_a_tunnel_is_closed_to_a_profile_that_narrows_it_away() -> None:
    rules = policy("""
        hosts: {a.example: {intercept: never}, b.example: {}}
        profiles: {p: {hosts: [a.example]}, q: {hosts: [b.example]}}
    """)
    assert ask(rules, "GET https://a.example/", profile="p").allowed
    assert ask(rules, "GET https://a.example/", profile="q").code == "profile.excluded"


def test_lists_every_entry_that_names_a_host_the_chosen_one_first() -> None:
    rules = policy("""
        hosts: {"**.example": {}, "*.b.example": {}, a.b.example: {}, "**.other": {}}
        networks: [{cidr: 10.0.0.0/8}, {cidr: 10.1.0.0/16}]
    """)
    assert [entry.key for entry in matching_entries(rules, "a.b.example")] == [
        "a.b.example",
        "*.b.example",
        "**.example",
    ]
    assert [entry.key for entry in matching_entries(rules, "10.1.0.1")] == ["10.1.0.0/16", "10.0.0.0/8"]
    assert matching_entries(rules, "A.b.example") == []


STANDARD = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE")
TOKEN = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")


@pytest.mark.parametrize("method", STANDARD)
def test_a_standard_method_has_one_spelling(method: str) -> None:
    rules = policy("hosts: {a.example: {}}")
    assert ask(rules, f"{method} https://a.example/").allowed is (method not in ("CONNECT", "TRACE"))
    for other in (method.lower(), method.title()):
        assert ask(rules, f"{other} https://a.example/").code == "method.refused"


def test_a_method_is_a_token() -> None:
    rules = policy("hosts: {a.example: {}}")
    for character in map(chr, range(0x100)):
        asked = replace(head("GET https://a.example/"), method=f"A{character}B")
        assert decide(rules, BOX, asked, NOW).allowed is (character in TOKEN), repr(character)


METHOD_OVERRIDES = (
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "_method",
    "_httpmethod",
    "$httpMethod",
)
PATH_OVERRIDES = ("x-original-url", "x-rewrite-url", "x-original-uri", "x-rewrite-uri")


@pytest.mark.parametrize("name", METHOD_OVERRIDES)
def test_neither_a_header_nor_a_parameter_names_another_method(name: str) -> None:
    rules = policy("hosts: {a.example: {methods: [POST]}}")
    for spelling in (name, name.replace("-", "_"), name.replace("_", "-"), name.replace("-", ".")):
        by_header = ask(rules, "POST https://a.example/", headers=((spelling, "PUT"),))
        by_query = ask(rules, f"POST https://a.example/?{spelling}=PUT")
        assert (by_header.code, by_query.code) == ("method.override", "method.override")
        for sounds_alike in (f"x{spelling}", f"{spelling}x"):
            assert ask(rules, "POST https://a.example/", headers=((sounds_alike, "PUT"),)).allowed
    escaped = name.replace("m", "%6d").replace("M", "%4D")
    assert ask(rules, f"POST https://a.example/?{escaped}=PUT").code == "method.override"
    assert ask(rules, f"POST https://a.example/?{name.upper()}=PUT").code == "method.override"
    for value in ("", "=", "=PUT=", "=PUT=x"):
        assert ask(rules, f"POST https://a.example/?a=b&{name}{value}").code == "method.override"
    assert ask(rules, "POST https://a.example/?the%20method=PUT").allowed


@pytest.mark.parametrize("name", PATH_OVERRIDES)
def test_no_header_names_another_path_where_rules_look_at_paths(name: str) -> None:
    by_path, open_to_all = policy("hosts: {a.example: {paths: [/x]}}"), policy("hosts: {a.example: {}}")
    for spelling in (name, name.replace("-", "_")):
        headers = ((spelling, "/y"),)
        assert ask(by_path, "GET https://a.example/x", headers=headers).code == "path.override"
        assert ask(open_to_all, "GET https://a.example/x", headers=headers).allowed
    assert ask(by_path, "GET https://a.example/x", headers=(("x-http-method", "PUT"),)).allowed
    assert ask(by_path, "GET https://a.example/x?_method=PUT").allowed


def test_a_profile_may_leave_some_rules_out() -> None:
    rules = policy("""
        hosts: {a.example: {allow: [{id: read, methods: [GET]}, {id: write, methods: [PUT]}]}}
        profiles: {p: {hosts: [a.example], rules: ["a.example#read"]}}
    """)
    assert ask(rules, "GET https://a.example/", profile="p").allowed
    assert ask(rules, "PUT https://a.example/", profile="p").code == "rule.none"


def test_what_is_remembered_of_one_host_is_not_said_of_another() -> None:
    rules = policy("""
        mode: observe
        hosts: {abc: {}, "*.example": {}}
        deny: [{id: abc, hosts: [b.example, other], paths: ["/**"]}]
    """)
    assert ask(rules, "GET https://abc/").entry == "abc"
    assert ask(rules, "GET https://a.example/").allowed
    for host in ("other", "b.example"):
        assert ask(rules, f"GET https://{host}/").code == "rule.denied"


def test_a_secret_is_over_from_its_second_on() -> None:
    rules = policy("""
        secrets: {one: {from: "env:ONE", hosts: [a.example], expires: "2027-01-15T08:00:00Z"}}
        hosts: {a.example: {allow: all, inject: [{bearer: one}]}}
    """)
    assert ask(rules, "GET https://a.example/", at=NOW - 1).allowed
    assert ask(rules, "GET https://a.example/", at=NOW).code == "secret.expired"


def test_what_is_observed_at_a_known_host_names_its_entry() -> None:
    seen = ask(policy("mode: observe\nhosts: {a.example: {allow: []}}"), "GET https://a.example/")
    assert (seen.observed, seen.entry, str(seen.place)) == (True, "a.example", "hosts.yaml:2:9")


def test_a_closed_host_names_the_rule_that_closed_it() -> None:
    rules = policy("hosts:\n  a.example:\n    allow: all\n    deny: [{id: no, paths: ['/**']}]\n")
    denied = ask_host(rules, "https://a.example")
    assert (str(denied.rule), str(denied.place)) == ("a.example#no", "hosts.yaml:4:12")


def test_what_is_only_observed_says_so_and_keeps_its_limits() -> None:
    rules = policy("mode: observe\nhosts: {a.example: {allow: []}, b.example: {}}\nlimits: {connections: 3}")
    for host in ("a.example", "unknown.example"):
        seen = ask_host(rules, f"https://{host}")
        assert (seen.code, seen.observed, [limit.connections for limit in seen.limits]) == (
            "observed",
            True,
            [3],
        )
    known = ask_host(rules, "https://b.example")
    assert (known.code, known.observed) == ("host.allowed", False)


def test_a_tunnel_keeps_to_its_ports() -> None:
    rules = policy("hosts: {a.example: {intercept: never, ports: [8443]}}")
    assert ask(rules, "GET https://a.example:8443/").allowed
    assert ask(rules, "GET https://a.example/").code == "host.port"
    assert ask(rules, "GET http://a.example:8443/").code == "host.cleartext"


def test_an_upgrade_that_no_rule_takes_is_named() -> None:
    rules = policy("hosts: {a.example: {}}")
    assert ask(rules, "GET https://a.example/", websocket=True).code == "rule.websocket"


def test_a_name_that_ends_in_a_digit_is_no_address() -> None:
    assert ask(policy("hosts: {node1: {}, '**.node1': {}}"), "GET https://node1/").allowed
    assert ask(policy("hosts: {'**.node1': {}}"), "GET https://a.node1/").allowed


def test_remembers_the_routes_of_known_hosts_alone() -> None:
    rules = policy('hosts: {a.example: {}, "*.b.example": {}}')
    for name in ("a.example", "x.b.example", "y.b.example", "invented.example", "10.0.0.1"):
        route_of(rules, name)
    assert set(rules.routes) == {"a.example", "x.b.example", "y.b.example"}
    assert rules.routes["x.b.example"] is rules.routes["y.b.example"]


def test_the_memory_of_routes_is_bounded() -> None:
    rules = policy('hosts: {"*.b.example": {}}')
    for number in range(MAX_ROUTES + 10):
        assert route_of(rules, f"n{number}.b.example").entry is not None
    assert len(rules.routes) <= MAX_ROUTES
    assert len(rules.shared_routes) == 1


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/a/b", ("/a/b",)),
        ("/a%3Ab", ("/a:b",)),
        ("/a%2Fb", ("/a%2Fb", "/a/b")),
        ("/a*b", ("/a%2Ab",)),
        ("/a%20", ("/a%20",)),
    ],
)
def test_a_deny_reads_a_path_in_every_way_a_server_may(path: str, read: tuple[str, ...]) -> None:
    assert deny_readings(path) == read


def test_a_foreign_scheme_is_clear_text() -> None:
    rules = policy("hosts: {a.example: {}}")
    assert decide_host(rules, BOX, "a.example", 443, NOW, scheme="ftp").code == "host.cleartext"


def test_an_injected_request_goes_out_encrypted_or_not_at_all() -> None:
    rules = policy("""
        secrets: {one: {from: "env:ONE", hosts: [a.example]}}
        hosts: {a.example: {allow: all, inject: [{bearer: one}]}}
    """)
    (entry,) = rules.entries.values()
    forced = replace(
        rules, entries={key: replace(entry, clear_ports=frozenset({80})) for key in rules.entries}
    )
    assert decide(forced, BOX, head("GET http://a.example/"), NOW).code == "secret.unbound"
    assert decide(rules, BOX, head("GET https://a.example/"), NOW).allowed


def test_a_secret_that_is_bound_to_a_port_does_not_go_there_in_clear() -> None:
    rules = policy("""
        secrets: {one: {from: "env:ONE", hosts: ["a.example:8080"]}}
        hosts: {a.example: {ports: [8080], allow: all, inject: [{bearer: one}]}}
    """)
    (entry,) = rules.entries.values()
    forced = replace(
        rules, entries={key: replace(entry, clear_ports=frozenset({8080})) for key in rules.entries}
    )
    assert decide(forced, BOX, head("GET http://a.example:8080/"), NOW).code == "secret.unbound"
    assert decide(forced, BOX, head("GET https://a.example:8080/"), NOW).allowed
