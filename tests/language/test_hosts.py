"""Lines 4 to 9 of docs/reference/language.md: host keys, which entry is chosen, ports, whole hosts."""

from __future__ import annotations

import pytest

from egress.rules.language.hosts import HostError, canonical_wire_host
from tests.unit.rules.rule_samples import ask, ask_host, decision_text, errors, policy


def key_error(key: str) -> str:
    """The one error that a host key leads to."""
    found = errors(f"hosts:\n  {key!r}: {{}}\n")
    assert len(found) == 1, found
    prefix = "hosts.yaml:2:3: "
    assert found[0].startswith(prefix), found
    return found[0].removeprefix(prefix)


def test_04_one_star_stands_for_exactly_one_label() -> None:
    rules = policy('hosts: {"*.example.com": {}}')
    assert decision_text(rules, "GET https://a.example.com/") == "allow host"
    assert decision_text(rules, "GET https://a.b.example.com/") == "deny host.unknown"
    assert decision_text(rules, "GET https://example.com/") == "deny host.unknown"


def test_04_two_stars_stand_for_one_label_or_more_and_never_for_the_apex() -> None:
    rules = policy('hosts: {"**.example.com": {}}')
    assert decision_text(rules, "GET https://a.example.com/") == "allow host"
    assert decision_text(rules, "GET https://a.b.example.com/") == "allow host"
    assert decision_text(rules, "GET https://example.com/") == "deny host.unknown"
    assert decision_text(rules, "GET https://badexample.com/") == "deny host.unknown"


@pytest.mark.parametrize(
    "key", ["a*.example.com", "*a.example.com", "a.*.com", "*", "**", "***.com", "*.*.com"]
)
def test_04_refuses_an_asterisk_that_is_not_a_whole_first_label(key: str) -> None:
    assert key_error(key) == (
        f"`{key}` is not a host: an asterisk can only replace whole labels at the beginning"
        ' (write "*.example.com" or "**.example.com")'
    )


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("api.example.com:8443", "a host name cannot contain a port (write the port in `ports:`)"),
        ("10.0.0.1", "the last part of the host name is a number (an address goes into `networks:`)"),
        ("::1", "this is an address, not a host name (an address goes into `networks:`)"),
        ("[::1]", "this is an address, not a host name (an address goes into `networks:`)"),
        (
            "https://example.com",
            "this is a URL or part of one, not a host name (write only the name, such as api.example.com)",
        ),
        (
            "user@example.com",
            "this is a URL or part of one, not a host name (write only the name, such as api.example.com)",
        ),
        ("*.", "the host name is empty ()"),
        ("a..example.com", "the host name has an empty label (write a name such as api.example.com)"),
        (".example.com", "the host name has an empty label (write a name such as api.example.com)"),
        (
            "a b.example.com",
            (
                "the host name contains a character that is not allowed"
                " (use letters, digits, - and _, with dots between labels)"
            ),
        ),
    ],
)
def test_04_refuses_a_key_that_is_no_host(key: str, reason: str) -> None:
    assert key_error(key) == f"`{key}` is not a host: {reason}"


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER。example", "xn--bcher-kva.example"),
        ("**.bücher.example", "a.xn--bcher-kva.example"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_05_brings_a_key_to_its_canonical_spelling(written: str, asked: str) -> None:
    assert ask(policy(f'hosts: {{"{written}": {{}}}}'), f"GET https://{asked}/").allowed


@pytest.mark.parametrize(
    "name",
    [
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
        "xn--a.example",
        "xn--.example",
        "xn--bücher",
        "ex%61mple.com",
    ],
)
def test_05_refuses_what_has_no_canonical_spelling(name: str) -> None:
    assert "is not a host" in key_error(name)


@pytest.mark.parametrize("name", ["a.1", "a.0x1f", "a.0x", "127.1", "1", "0x7f000001", "a.12."])
def test_05_refuses_a_last_label_that_is_a_number(name: str) -> None:
    assert key_error(name) == (
        f"`{name}` is not a host: the last part of the host name is a number"
        " (an address goes into `networks:`)"
    )


def test_05_takes_equal_keys_for_duplicates() -> None:
    assert errors("hosts:\n  api.example.com: {}\n  API.example.com.: {}\n") == [
        ("hosts.yaml:3:3: duplicate host `API.example.com.` (first at hosts.yaml:2:3) (keep one of them)")
    ]


@pytest.mark.parametrize("name", ["a..b", "a.", ".", "", "a.b..", "é.example", "a\0.example", "a.example\n"])
def test_05_takes_off_one_trailing_dot_and_repairs_nothing_else(name: str) -> None:
    if name == "a.":
        assert canonical_wire_host(name) == "a"
    else:
        with pytest.raises(HostError):
            canonical_wire_host(name)


CHOICE = """
    hosts:
      api.example.com: {allow: [{id: exact}]}
      "*.example.com": {allow: [{id: one-star}]}
      "**.example.com": {allow: [{id: two-stars}]}
      "**.deep.example.com": {allow: [{id: deep}]}
"""


@pytest.mark.parametrize(
    ("host", "outcome"),
    [
        ("api.example.com", "allow exact"),
        ("www.example.com", "allow one-star"),
        ("a.b.example.com", "allow two-stars"),
        ("a.deep.example.com", "allow deep"),
        ("deep.example.com", "allow one-star"),
    ],
)
def test_06_chooses_exact_then_the_longest_suffix_then_one_star(host: str, outcome: str) -> None:
    assert decision_text(policy(CHOICE), f"GET https://{host}/") == outcome


@pytest.mark.parametrize(
    "entry",
    [
        "{allow: []}",
        "{methods: [PUT]}",
        "{ports: [8443]}",
        '{allow: all, expires: "2020-01-01"}',
        '{allow: [{id: old, expires: "2020-01-01"}]}',
    ],
)
def test_06_never_falls_through_to_another_entry(entry: str) -> None:
    rules = policy(f'hosts:\n  api.example.com: {entry}\n  "*.example.com": {{}}\n')
    assert not ask(rules, "GET https://api.example.com/").allowed
    assert ask(rules, "GET https://www.example.com/").allowed


def test_06_chooses_before_the_profile_is_asked() -> None:
    rules = policy("""
        hosts:
          api.example.com: {}
          "*.example.com": {}
        profiles: {default: {hosts: ["*.example.com"]}}
    """)
    assert decision_text(rules, "GET https://api.example.com/") == "deny profile.excluded"
    assert decision_text(rules, "GET https://www.example.com/") == "allow host"


def test_06_denies_of_every_matching_entry_and_of_the_top_apply() -> None:
    rules = policy("""
        hosts:
          api.example.com: {}
          "*.example.com": {allow: all, deny: [{id: no-one, paths: [/one]}]}
          "**.example.com": {allow: all, deny: [{id: no-two, paths: [/two]}]}
          "**.com": {allow: all, deny: [{id: no-three, paths: [/three]}]}
        deny: [{id: no-four, paths: [/four]}]
    """)
    assert decision_text(rules, "GET https://api.example.com/one") == "deny no-one"
    assert decision_text(rules, "GET https://api.example.com/two") == "deny no-two"
    assert decision_text(rules, "GET https://api.example.com/three") == "deny no-three"
    assert decision_text(rules, "GET https://api.example.com/four") == "deny no-four"
    assert decision_text(rules, "GET https://api.example.com/five") == "allow host"
    assert str(ask(rules, "GET https://api.example.com/one").rule) == "*.example.com#no-one"
    assert str(ask(rules, "GET https://api.example.com/four").rule) == "deny#no-four"


def test_06_a_top_deny_can_name_its_hosts() -> None:
    rules = policy("""
        hosts: {a.example.com: {}, b.example.com: {}}
        deny: [{id: no-admin, hosts: ["a.example.com", "*.c.example"], paths: ["/admin/**"]}]
    """)
    assert decision_text(rules, "GET https://a.example.com/admin/x") == "deny no-admin"
    assert decision_text(rules, "GET https://b.example.com/admin/x") == "allow host"


def test_06_a_deny_about_hosts_alone_holds_before_any_connection() -> None:
    rules = policy("""
        hosts: {"**.example.com": {}}
        deny: [{id: no-evil, hosts: [evil.example.com]}]
    """)
    decision = ask_host(rules, "https://evil.example.com")
    assert (decision.code, str(decision.rule)) == ("rule.denied", "deny#no-evil")
    assert ask_host(rules, "https://good.example.com").allowed


@pytest.mark.parametrize("deny", ['paths: ["/**"]', 'paths: ["/x", "/**"]'])
def test_06_a_deny_of_every_path_closes_the_host(deny: str) -> None:
    rules = policy(f"hosts: {{a.example.com: {{allow: all, deny: [{{id: shut, {deny}}}]}}}}")
    assert ask_host(rules, "https://a.example.com").code == "rule.denied"


@pytest.mark.parametrize("deny", ["methods: [GET]", "paths: [/x]", "websocket: true", 'query: {a: "*"}'])
def test_06_a_deny_about_requests_leaves_the_connection(deny: str) -> None:
    rules = policy(f"hosts: {{a.example.com: {{allow: all, deny: [{{id: some, {deny}}}]}}}}")
    assert ask_host(rules, "https://a.example.com").allowed


def test_07_opens_443_alone_by_default() -> None:
    rules = policy("hosts: {a.example.com: {}}")
    assert rules.ports == {443}
    assert ask_host(rules, "https://a.example.com").allowed
    assert ask_host(rules, "https://a.example.com:8443").code == "host.port"
    assert ask_host(rules, "http://a.example.com").code == "host.cleartext"
    assert decision_text(rules, "GET https://a.example.com:8443/") == "deny host.port"
    assert decision_text(rules, "GET http://a.example.com/") == "deny host.cleartext"
    assert decision_text(rules, "GET http://a.example.com:443/") == "deny host.cleartext"


@pytest.mark.parametrize(
    ("keys", "opened", "closed"),
    [
        ("ports: [443, 8443]", ["https://{}", "https://{}:8443"], ["http://{}", "https://{}:80"]),
        ("http: true", ["https://{}", "http://{}"], ["https://{}:80", "http://{}:443", "http://{}:8080"]),
        ("http: [8080]", ["https://{}", "http://{}:8080"], ["http://{}"]),
        ("http: true, ports: []", ["http://{}"], ["https://{}"]),
        ("http: false", ["https://{}"], ["http://{}"]),
        ("ports: [8443]", ["https://{}:8443"], ["https://{}"]),
    ],
)
def test_07_ports_and_http_say_what_is_open(keys: str, opened: list[str], closed: list[str]) -> None:
    rules = policy(f"hosts: {{a.example.com: {{{keys}}}}}")
    for url in opened:
        assert ask_host(rules, url.format("a.example.com")).allowed
        assert ask(rules, f"GET {url.format('a.example.com')}/").allowed
    for url in closed:
        assert not ask_host(rules, url.format("a.example.com")).allowed
        assert not ask(rules, f"GET {url.format('a.example.com')}/").allowed


def test_07_the_proxy_listens_on_every_port_named() -> None:
    rules = policy("""
        hosts: {a.example.com: {ports: [8443]}, b.example.com: {http: [8080]}}
        networks: [{cidr: 10.0.0.0/8, ports: [], http: true}]
    """)
    assert rules.ports == {443, 8443, 8080, 80}


def test_07_an_entry_without_any_port_is_an_error() -> None:
    assert errors("hosts:\n  a.example.com:\n    ports: []\n") == [
        "hosts.yaml:3:5: this entry has no port (add `http` beside `ports: []`, or remove `ports`)"
    ]


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_07_refuses_a_port_that_cannot_be(port: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com: {{ports: [{port}]}}\n")
    assert found.startswith("hosts.yaml:2:27: this must be at ")


def test_08_an_empty_entry_allows_the_whole_host() -> None:
    rules = policy("hosts: {a.example.com: {}}")
    for request in ("GET https://a.example.com/", "DELETE https://a.example.com/x//y;z?q"):
        assert decision_text(rules, request) == "allow host"


@pytest.mark.parametrize(
    "keys",
    [
        "deny: [{id: no, paths: [/x]}]",
        "deny: []",
        "inject: [{bearer: github}]",
        "inject: []",
        "websocket: true, deny: []",
    ],
)
def test_08_deny_or_inject_without_allow_is_an_error(keys: str) -> None:
    found = errors(
        f"hosts:\n  a.example.com: {{{keys}}}\nsecrets:"
        f" {{github: {{from: 'env:G', hosts: [a.example.com]}}}}\n"
    )
    assert found == [
        (
            "hosts.yaml:2:3: this entry has `deny` or `inject` but no `allow`"
            " (write `allow: all`, or list what is allowed)"
        )
    ]


def test_08_allow_all_is_the_spelling_for_a_whole_host_with_denies() -> None:
    rules = policy("hosts: {a.example.com: {allow: all, deny: [{id: no-x, paths: [/x]}]}}")
    assert decision_text(rules, "GET https://a.example.com/y") == "allow host"
    assert decision_text(rules, "GET https://a.example.com/x") == "deny no-x"


@pytest.mark.parametrize(
    "entry", ["{allow: []}", '{allow: [{id: a, expires: "2020-01-01"}, {id: b, expires: "2021-01-01"}]}']
)
def test_08_an_empty_or_expired_list_closes_the_host(entry: str) -> None:
    rules = policy(f'hosts: {{a.example.com: {entry}, "*.example.com": {{}}}}')
    assert decision_text(rules, "GET https://a.example.com/") == "deny host.closed"
    assert ask_host(rules, "https://a.example.com").code == "host.closed"


def test_09_predicates_on_the_entry_are_one_rule_named_host() -> None:
    rules = policy("hosts: {a.example.com: {methods: [GET, HEAD], paths: ['/public/**']}}")
    assert decision_text(rules, "GET https://a.example.com/public/x") == "allow host"
    assert decision_text(rules, "PUT https://a.example.com/public/x") == "deny rule.none"
    assert decision_text(rules, "GET https://a.example.com/private") == "deny rule.none"
    assert str(ask(rules, "GET https://a.example.com/public/x").rule) == "a.example.com#host"


def test_09_deny_may_stand_beside_predicates() -> None:
    rules = policy("hosts: {a.example.com: {methods: [GET], deny: [{id: no-x, paths: [/x]}]}}")
    assert decision_text(rules, "GET https://a.example.com/y") == "allow host"
    assert decision_text(rules, "GET https://a.example.com/x") == "deny no-x"


@pytest.mark.parametrize(
    "name",
    ["methods: [GET]", "paths: [/x]", 'query: {a: "*"}', 'headers: {a: "*"}', "content_type: [text/plain]"],
)
def test_09_predicates_beside_allow_are_an_error(name: str) -> None:
    key = name.split(":", maxsplit=1)[0]
    assert errors(f"hosts:\n  a.example.com:\n    allow: [{{id: all}}]\n    {name}\n") == [
        (
            f"hosts.yaml:4:5: `{key}` cannot be combined with a list of allow rules (move it into the"
            f" rules it is meant for)"
        )
    ]
    assert errors(f"hosts:\n  a.example.com:\n    allow: all\n    {name}\n") == [
        f"hosts.yaml:4:5: `{key}` cannot be combined with `allow: all` (remove either of them)"
    ]
