"""Lines 38 to 40 of docs/reference/language.md: tests beside the rules."""

from __future__ import annotations

import pytest

from egress.rules.compile.rule_tests import run_rule_tests
from tests.unit.rules.rule_samples import NOW, errors, policy

RULES = """
secrets: {one: {from: "env:ONE", hosts: [a.example.com]}, two: {from: "env:TWO", hosts: [a.example.com]}}
hosts:
  a.example.com:
    allow:
      - {id: read, methods: [GET], expires: 2027-02-01}
      - {id: write, methods: [PUT]}
      - {id: socket, paths: [/socket], websocket: true}
    deny: [{id: no-keys, paths: [/keys]}, {id: no-debug, headers: {x-debug: "*"}}]
    inject:
      - {bearer: one, for: [write]}
      - {cookie: {name: c, secret: two}, for: [write]}
  "*.example.com": {}
  "b.example.com": {ports: [8443]}
  "c.example.com": {ports: [], http: true}
profiles: {default: {hosts: [a.example.com, "*.example.com", b.example.com, c.example.com]},
  none: {hosts: []}}
"""


def problems(*tests: str, rules: str = RULES) -> list[str]:
    """What each of these top-level tests says when it is run; empty for one that passed."""
    listed = "".join(f"  - {test}\n" for test in tests)
    return [result.problem for result in run_rule_tests(policy(f"{rules}\ntests:\n{listed}"), NOW)]


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("GET https://a.example.com/ -> allow", ""),
        ("GET https://a.example.com/ -> allow read", ""),
        ("GET https://a.example.com/ -> allow write", "the decision is allow read"),
        ("GET https://a.example.com/ -> deny", "the decision is allow read"),
        ("GET https://a.example.com/ -> allow, inject one", "the decision is allow read"),
        ("PUT https://a.example.com/ -> allow write, inject one, inject two", ""),
        ("PUT https://a.example.com/ -> allow, inject two, inject one", ""),
        ("GET https://a.example.com/keys -> deny", ""),
        ("GET https://a.example.com/keys -> deny no-keys", ""),
        ("GET https://a.example.com/keys -> deny rule.denied", ""),
        ("GET https://a.example.com/keys -> deny no-debug", "the decision is deny no-keys"),
        ("GET https://a.example.com/keys -> allow", "the decision is deny no-keys"),
        ("POST https://a.example.com/ -> deny rule.none", ""),
        ("GET https://other.example/ -> deny host.unknown", ""),
        ("GET https://other.example/ -> deny host.closed", "the decision is deny host.unknown"),
        ("GET https://b.example.com:8443 -> allow host", ""),
        ("GET http://c.example.com/ -> allow host", ""),
        ("GET https://10.0.0.1/ -> deny host.literal", ""),
        ("GET https://[::1]/ -> deny host.literal", ""),
        ("GET https://A.Example.com./ -> allow read", ""),
    ],
)
def test_38_a_test_is_method_target_and_expectation(test: str, problem: str) -> None:
    assert problems(test) == [problem]


@pytest.mark.parametrize(
    ("test", "finding"),
    [
        ("GET https://a.example.com/", "this is not a test"),
        ("https://a.example.com/ -> allow", "this is not a test"),
        ("GET https://a.example.com/ -> maybe", "`maybe` is not an expectation"),
        ("GET https://a.example.com/ -> allow one two", "`allow one two` is not an expectation"),
        (
            "GET https://a.example.com/ -> deny, inject one",
            "`inject` cannot follow `deny`: such a request is not sent",
        ),
        ("GET https://a.example.com/ -> deny host.unknwon", "`host.unknwon` is neither a rule id nor a code"),
        ("GET /path -> allow", "a test here needs a full URL"),
        ("GET a.example.com -> allow", "this is not a full URL"),
        ("GET ftp://a.example.com/ -> allow", "this is not a full URL"),
        ("GET https://u@a.example.com/ -> allow", "this is not a full URL"),
        ("GET https://a.example.com:0/ -> allow", "a port is a number from 1 to 65535"),
        ("GET https://a..b/ -> allow", "the host name has an empty label"),
        ("GET https://a.1/ -> allow", "the last part of the host name is a number"),
        ("3", "this must be "),
        ("[GET]", "this must be "),
    ],
)
def test_38_says_what_is_wrong_with_a_test(test: str, finding: str) -> None:
    (found,) = errors(f"tests:\n  - {test}\n")
    assert found.startswith(f"hosts.yaml:2:5: {finding}")


def test_38_under_an_exact_entry_a_path_is_enough() -> None:
    rules = """
hosts:
  a.example.com: {methods: [GET], tests: ["GET /x -> allow host", "PUT /x -> deny"]}
  b.example.com: {ports: [8443], tests: [GET / -> allow]}
  c.example.com: {ports: [], http: [8080], tests: [GET / -> allow]}
  d.example.com: {ports: [], http: true, tests: [GET / -> allow]}
"""
    results = list(run_rule_tests(policy(rules), NOW))
    assert [result.problem for result in results] == [""] * 5
    assert [result.case.url for result in results][2:] == [
        "https://b.example.com:8443/",
        "http://c.example.com:8080/",
        "http://d.example.com/",
    ]


def test_38_under_a_wildcard_a_full_url_is_needed() -> None:
    (found,) = errors('hosts:\n  "*.example.com":\n    tests: [GET / -> allow]\n')
    assert found.startswith("hosts.yaml:3:13: a test here needs a full URL")
    rules = policy("""hosts: {"*.example.com": {tests: ['GET https://a.example.com/ -> allow']}}""")
    assert [result.problem for result in run_rule_tests(rules, NOW)] == [""]


def test_38_a_path_is_sent_as_utf_8() -> None:
    rules = 'hosts: {a.example.com: {paths: ["/café/*"]}}'
    assert problems("GET https://a.example.com/café/é -> allow", rules=rules) == [""]
    assert problems("GET https://a.example.com/caf%C3%A9/x -> allow", rules=rules) == [""]


def test_39_a_test_with_a_colon_must_be_quoted() -> None:
    assert errors("tests:\n  - GET https://a.example.com/: x -> deny\n") == [
        "hosts.yaml:2:5: this test contains `: `, so YAML reads it as a mapping (put the test in quotes)"
    ]
    assert problems(
        '"GET https://a.example.com/x -> deny rule.none"', rules="hosts: {a.example.com: {methods: [PUT]}}"
    ) == [""]


def test_39_a_url_between_brackets_must_be_quoted() -> None:
    assert errors("tests: [GET https://a.example.com/ -> deny]\n") == [
        (
            "hosts.yaml:1:18: a value that contains `:` is not quoted between brackets or braces"
            " (put the value in quotes)"
        )
    ]


def test_39_a_comma_in_a_flow_list_splits_a_test_and_is_reported() -> None:
    found = errors("hosts: {a.example.com: {tests: [GET / -> allow host, inject one]}}")
    assert [line.split(": ", 1)[1] for line in found] == [
        (
            "this is not a test (write METHOD TARGET -> allow [id][, inject NAME...], -> deny [id or code]"
            " or -> answer [status]; put a test with a comma on its own line)"
        )
    ]


LONG = "{{request: 'GET https://a.example.com{}', expect: '{}'{}}}"


@pytest.mark.parametrize(
    ("path", "expect", "more", "problem"),
    [
        ("/", "allow read", "", ""),
        ("/", "deny no-debug", ", headers: {X-Debug: '1'}", ""),
        ("/", "deny profile.excluded", ", profile: none", ""),
        ("/", "deny rule.none", ", at: 2027-02-02", ""),
        ("/", "allow read", ", at: '2027-02-01T23:59:59Z'", ""),
        ("/socket", "allow socket", ", websocket: true", ""),
        ("/", "deny rule.websocket", ", websocket: true", ""),
        ("/", "allow write", "", "the decision is allow read"),
    ],
)
def test_39_the_long_form(path: str, expect: str, more: str, problem: str) -> None:
    assert problems(LONG.format(path, expect, more)) == [problem]


@pytest.mark.parametrize(
    ("test", "finding"),
    [
        ("{request: GET, expect: deny}", "2:15: a request needs the form METHOD TARGET"),
        ("{request: 'GET https://a.example.com/'}", "2:5: the key `expect` is missing"),
        ("{expect: deny}", "2:5: the key `request` is missing"),
        (LONG.format("/", "deny", ", at: soon"), "2:70: this is not a day or moment"),
        (LONG.format("/", "deny", ", profil: x"), "2:66: unknown key `profil` (did you mean `profile`?)"),
        (LONG.format("/", "deny", ", profile: x"), "2:75: unknown profile `x` (did you mean `p`?)"),
        (LONG.format("/", "deny", ", websocket: 1"), "2:77: this must be true or false, not a number"),
    ],
)
def test_39_says_what_is_wrong_with_the_long_form(test: str, finding: str) -> None:
    found = list(errors(f"tests:\n  - {test}\nprofiles: {{p: {{hosts: []}}}}\n"))
    assert len(found) == 1
    place, text = finding.split(": ", 1)
    assert f": {text.split(' (')[0]}" in found[0]
    assert found[0].startswith(f"hosts.yaml:{place.split(':')[0]}:")


def test_40_secrets_are_exact() -> None:
    assert problems(
        "PUT https://a.example.com/ -> allow write, inject one",
        "PUT https://a.example.com/ -> allow write",
        "PUT https://a.example.com/ -> allow write, inject one, inject two",
        "PUT https://a.example.com/ -> allow write, inject one, inject two, inject three",
    ) == [
        "the decision is allow write, inject one, inject two",
        "the decision is allow write, inject one, inject two",
        "",
        "the decision is allow write, inject one, inject two",
    ]


def test_40_a_test_that_another_entry_decides_fails() -> None:
    rules = policy("""
        hosts:
          a.example.com: {}
          "*.example.com":
            tests: ["GET https://a.example.com/ -> allow", "GET https://b.example.com/ -> allow",
              "GET https://c.example/ -> deny"]
    """)
    assert [result.problem for result in run_rule_tests(rules, NOW)] == [
        "the decision comes from another entry: a.example.com",
        "",
        "the decision comes from another entry: none",
    ]
