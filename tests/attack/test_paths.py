"""Classes 5 and 6, scope by port and path: a rule is matched on the path that the server will read.

Cases S-14 (other port), S-15 (clear text), S-16 (dot segments), S-34 (a pattern that explodes), S-57, S-58,
S-60 and S-62 (what a credential must not be used for), as rules of a file.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.decide.decision import decide
from egress.types import Decision, Identity
from tests.unit.rules.rule_samples import NOW, ask, ask_host, decision_text, head, policy

API = "https://api.example.com"
RULES = policy("""
    secrets: {token: {from: "env:TOKEN", hosts: [api.example.com]}}
    hosts:
      api.example.com:
        allow:
          - {id: read, methods: [GET, HEAD], paths: ["/repos/acme/**", "/user"]}
          - {id: issues, methods: [POST], paths: ["/repos/acme/*/issues"]}
          - {id: fetch, methods: [POST], paths: ["/acme/*/git-upload-pack"]}
          - {id: push, methods: [POST], paths: ["/acme/site/git-receive-pack"]}
        deny:
          - {id: no-keys, paths: ["/repos/*/*/keys/**", "/user/keys/**"]}
          - {id: no-hooks, paths: ["/repos/*/*/hooks/**"]}
        inject: [{bearer: token}]
""")


def at(target: str, method: str = "GET") -> Decision:
    """The decision on a target, as the sandbox spelled it."""
    return decide(RULES, Identity("box"), replace(head(f"{method} {API}/"), target=target), NOW)


@pytest.mark.parametrize(
    ("request_line", "outcome"),
    [
        (f"GET {API}/user", "allow read, inject token"),
        (f"GET {API}/repos/acme/site/contents/a.b", "allow read, inject token"),
        (f"POST {API}/repos/acme/site/issues", "allow issues, inject token"),
        (f"POST {API}/acme/site/git-receive-pack", "allow push, inject token"),
        (f"POST {API}/acme/other/git-upload-pack", "allow fetch, inject token"),
    ],
)
def test_what_the_rules_allow_is_allowed_and_injected(request_line: str, outcome: str) -> None:
    """The positive control."""
    assert decision_text(RULES, request_line) == outcome


@pytest.mark.parametrize(
    "url", ["https://api.example.com:8443", "https://api.example.com:80", "https://api.example.com:22"]
)
def test_another_port_of_the_host_is_another_host(url: str) -> None:
    """S-14."""
    assert ask_host(RULES, url).code == "host.port"
    assert ask(RULES, f"GET {url}/user").code == "host.port"


@pytest.mark.parametrize(
    "url", ["http://api.example.com", "http://api.example.com:443", "http://api.example.com:8080"]
)
def test_nothing_is_sent_in_clear_text(url: str) -> None:
    """S-15."""
    decision = ask(RULES, f"GET {url}/user")
    assert (decision.code, decision.effects.needs) == ("host.cleartext", ())
    assert ask_host(RULES, url).code == "host.cleartext"


UP = [
    "/repos/acme/../../user/keys", "/repos/acme/..", "/repos/acme/.", "/repos/acme/./x", "/repos/acme/x/..",
    "/repos/acme/%2e%2e/evil", "/repos/acme/%2E%2E/evil", "/repos/acme/.%2e/evil", "/repos/acme/%2e./evil",
    "/repos/acme/..%2fevil", "/repos/acme%2f..%2fevil", "/repos/acme/%2e%2e%2fevil", "/repos/acme/..%5cevil",
    "/repos/acme/..\\evil", "/repos/acme\\..\\evil", "/repos/acme/%5c..%5cevil", "/repos/acme/..%5C..%5Cuser",
    "/repos/acme/%252e%252e/evil", "/repos/acme/%252e%252e%252fevil", "/repos/acme/%25%32%65%25%32%65/evil",
    "/repos/acme/..;/evil", "/repos/acme/..;x=y/evil", "/repos/acme/%2e%2e;/evil", "/repos/acme/..%3b/evil",
    "/repos/acme/..%00/evil", "/repos/acme/..\x00/evil", "/repos/acme/%c0%ae%c0%ae/evil",
    "/repos/acme/%c0%ae%c0%ae%c0%afevil", "/repos/acme/\xc0\xae\xc0\xae/evil",
    "/repos/acme/%e0%80%ae%e0%80%ae/evil",
    "/repos/acme/%f0%80%80%ae/evil", "/repos/acme/%f8%80%80%80%ae/evil", "/repos/acme/%u002e%u002e/evil",
    "/repos/acme/..#/evil", "/repos/acme/..%23/evil", "/repos/acme/.. /evil", "/repos/acme/..%20/evil",
    "/repos/acme/..\t/evil", "/repos/acme/..%09/evil", "/repos/acme/..%0a/evil", "/repos/acme/..\r\n/evil",
    "/repos/acme//../evil", "/repos/acme/.//evil", "/./user", "/../user", "//user", "/user//", "/user/.",
]  # fmt: skip


@pytest.mark.parametrize("target", UP)
def test_no_spelling_of_a_dot_segment_leaves_the_scope(target: str) -> None:
    """S-16, and every spelling of `..` and `/` that some server takes for one."""
    assert at(target).code == "path.ambiguous"


@pytest.mark.parametrize(
    "target",
    [
        "/user;x", "/user%3bx", "/user%3B", "/user#", "/user#x", "/user%23x", "/user\\", "/user%5c",
        "/user%00",
        "/user\x00", "/user%0a", "/user%20", "/user ", "/user%2f", "/user%2F", "/user%252f", "/user%",
        "/user%zz",
        "/user?a#b", "/user?a b", "/user?\x00", "user", "", "*", "http://api.example.com/user",
        "//api.example.com/user",
        "https://evil.example/user", "/user\xa0\u2028", "?/user", "/user\n", "/%75ser%2",
    ],
)  # fmt: skip
def test_an_ambiguous_spelling_of_an_allowed_path_is_refused(target: str) -> None:
    assert at(target).code == "path.ambiguous"


@pytest.mark.parametrize(
    "target",
    [
        "/User",
        "/user/",
        "/USER",
        "/user.",
        "/user..",
        "/user.json",
        "/users",
        "/use",
        "/user:x",
        "/user@x",
        "/usER",
    ],
)
def test_an_allow_reaches_no_other_path(target: str) -> None:
    assert at(target).code == "rule.none"


@pytest.mark.parametrize(
    ("target", "forwarded"),
    [
        ("/%75ser", "/user"),
        ("/repos/acme/%7Ex", "/repos/acme/~x"),
        ("/repos/acme/\xc3\xa9", "/repos/acme/%C3%A9"),
        ("/user?a=%2e%2e", "/user?a=%2e%2e"),
    ],
)
def test_the_path_that_was_matched_is_the_one_that_is_forwarded(target: str, forwarded: str) -> None:
    decision = at(target)
    assert (decision.allowed, decision.target) == (True, forwarded)


@pytest.mark.parametrize(
    "target",
    [
        "/repos/acme/site/keys", "/repos/acme/site/keys/", "/repos/acme/site/Keys", "/REPOS/acme/site/KEYS/1",
        "/repos/acme/site/%6beys", "/repos/acme/site/hooks", "/repos/acme/site/hooks/1/test",
        "/repos/acme/site/HooKs",
    ],
)  # fmt: skip
def test_a_deny_holds_in_every_spelling_that_a_server_may_take_for_it(target: str) -> None:
    """S-62: adding keys and hooks stays denied although reading below `/repos/acme` is allowed."""
    for method in ("GET", "POST", "PUT"):
        assert at(target, method).code == "rule.denied"


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("/v1/keys:rotate", "/v1/keys%3Arotate"), ("/v1/keys:rotate", "/v1/keys%3arotate"),
        ("/a,b", "/a%2Cb"), ("/a=b", "/a%3Db"), ("/a+b", "/a%2Bb"), ("/a@b", "/a%40b"), ("/a$b", "/a%24b"),
        ("/a!b", "/a%21b"), ("/a'b", "/a%27b"), ("/(a)", "/%28a%29"), ("/a&b", "/a%26b"),
        ("/[a]", "/%5Ba%5d"),
        ("/a%3Ab", "/a:b"), ("/a%5Bb", "/a[b"), ("/a%2Ab", "/a*b"), ("/a/**", "/A/b/"), ("/a", "/a/"),
        ("/a/", "/a"),
        ('/a"b', "/a%22b"), ("/é", "/%C3%a9"), ("/é", "/\xc3\xa9"), ("/a-b", "/a%2Db"), ("/a~b", "/a%7eb"),
    ],
)  # fmt: skip
def test_a_reserved_character_is_denied_escaped_or_not(pattern: str, target: str) -> None:
    rules = policy(
        f"hosts: {{api.example.com: {{allow: all, deny: [{{id: no,"
        f" paths: ['{pattern.replace(chr(39), chr(39) * 2)}']}}]}}}}"
    )
    asked = replace(head(f"GET {API}/"), target=target)
    assert decide(rules, Identity("box"), asked, NOW).code == "rule.denied"
    assert decide(rules, Identity("box"), replace(asked, target="/other"), NOW).allowed


@pytest.mark.parametrize(
    "target",
    [
        "/admin%2Fx",
        "/%61dmin%2fx",
        "/x%2F..%2Fadmin%2Fx",
        "/Admin%2F",
        "/admin%2F%2Fx",
        "/admin%252Fx",
        "/x%2f%2e%2e%2fadmin",
    ],
)
def test_taking_an_encoded_slash_as_data_opens_no_way_around_a_deny(target: str) -> None:
    rules = policy("""
        hosts: {api.example.com: {allow: all, encoded_slash: data, deny: [{id: no, paths: ["/admin/**"]}]}}
    """)
    assert not decide(rules, Identity("box"), replace(head(f"GET {API}/"), target=target), NOW).allowed
    assert decision_text(rules, f"GET {API}/@scope%2Fname") == "allow host"


@pytest.mark.parametrize(
    "pattern",
    ["/**/a/**/a/**/a/**/a/**/z", "/*a*a*a*a*a*a*a*a*a*z", "/**/*a*/**/*a*/**/*a*/z", "/" + "*a" * 30 + "z"],
)
@pytest.mark.parametrize("path", ["/" + "a" * 16000, "/a" * 8000, "/aaaaaaa" * 2000])
def test_no_pattern_takes_for_ever(pattern: str, path: str) -> None:
    """S-34: the test is that it ends."""
    rules = policy(
        f'hosts: {{api.example.com: {{allow: [{{id: it, paths: ["{pattern}",'
        f' /ok]}}], deny: [{{id: no, paths: ["{pattern}"]}}]}}}}'
    )
    assert decision_text(rules, f"GET {API}{path}") == "deny rule.none"
    assert decision_text(rules, f"GET {API}/ok") == "allow it"


@pytest.mark.parametrize(
    "request_line",
    [
        f"POST {API}/gists", (
        f"POST"
        f" {API}/repos/acme/site/issues/1/comments"
        ), f"POST {API}/repos/evil/site/issues",
        f"POST {API}/repos/acme/issues", f"POST {API}/repos/acme/site/x/issues", f"POST {API}/user/repos",
    ],
)  # fmt: skip
def test_nothing_is_created_that_no_rule_names(request_line: str) -> None:
    """S-57: an injected token is good for the requests of the rules alone."""
    assert decision_text(RULES, request_line) == "deny rule.none"


@pytest.mark.parametrize(
    "target",
    [
        "/evil/site/git-receive-pack", "/acme/other/git-receive-pack", "/acme/site/x/git-receive-pack",
        "/acme/site/git-receive-pack/", "/acme/Site/git-receive-pack", "/acme/site/git-receive-packs",
    ],
)  # fmt: skip
def test_nothing_is_pushed_to_a_foreign_repository(target: str) -> None:
    """S-58."""
    assert at(target, "POST").code == "rule.none"


@pytest.mark.parametrize(
    "target", ["/app/installations/1/access_tokens", "/login/oauth/access_token", "/applications/grants"]
)
def test_no_new_credential_is_minted(target: str) -> None:
    """S-60."""
    for method in ("POST", "GET", "PUT"):
        assert at(target, method).code == "rule.none"
