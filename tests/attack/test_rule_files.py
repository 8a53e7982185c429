"""Class 23 and attacker T4, the mistakes of a rule author: whatever a file says wrongly, nothing opens.

Cases S-03 (no secret without its rule), S-05's neighbours (bindings), S-11's at the rules, S-31 (an empty
file), S-32 (a typo), S-33 (rules that overlap), S-35's neighbours in the file.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import EMPTY_POLICY
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, ask, ask_host, decision_text, errors, head, loaded, policy

API = "https://api.example.com"
GOOD = """
version: 1
secrets:
  token: {from: "env:TOKEN", hosts: [api.example.com]}
hosts:
  api.example.com:
    allow: [{id: read, methods: [GET]}]
    deny: [{id: no-keys, paths: ["/keys/**"]}]
    inject: [{bearer: token}]
  other.example.com: {}
"""


def test_the_good_file_works() -> None:
    """The positive control: the host with the secret, and S-03, the one without."""
    rules = policy(GOOD)
    assert decision_text(rules, f"GET {API}/x") == "allow read, inject token"
    assert decision_text(rules, f"GET {API}/keys") == "deny no-keys"
    assert decision_text(rules, "GET https://other.example.com/echo") == "allow host"


@pytest.mark.parametrize(
    "text", ["version: 1", "version: 1\nhosts: {}", "version: 1\nhosts: {}\ndeny: []\nnetworks: []"]
)
def test_an_empty_file_denies_everything(text: str) -> None:
    """S-31: a list that restricts to nothing must not become no restriction."""
    rules = policy(text)
    assert not ask(rules, f"GET {API}/x").allowed
    assert not ask_host(rules, API).allowed
    assert not decide(EMPTY_POLICY, Identity("box"), head(f"GET {API}/"), NOW).allowed
    assert not decide_host(EMPTY_POLICY, Identity("box"), "api.example.com", 443, NOW).allowed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "[]",
        "rules: []",
        "{",
        "\x00",
        "version: 1\nrules: []",
        "null",
        "version: 1\nhosts:",
        "a: &x\nb: *x",
    ],
)
def test_garbage_is_no_policy(text: str) -> None:
    result = load([RuleText("hosts.yaml", text)])
    assert result.policy is None
    assert result.findings


def test_no_text_at_all_is_a_policy_that_denies() -> None:
    result = load([])
    assert result.policy is not None
    assert not ask(result.policy, f"GET {API}/x").allowed


@pytest.mark.parametrize(
    "key",
    [
        "allow: []",
        "methods: []",
        "paths: []",
        "query: {}",
        "headers: {}",
        "content_type: []",
        "allow: [{id: a, methods: []}]",
        "allow: [{id: a, paths: []}]",
    ],
)
def test_an_empty_list_never_stands_for_everything(key: str) -> None:
    result = loaded(f"hosts: {{api.example.com: {{{key}}}}}")
    assert result.policy is None or not ask(result.policy, f"GET {API}/x").allowed


def typos() -> list[str]:
    """Every key of the good file with one letter missing."""
    keys = [
        "version",
        "secrets",
        "from",
        "hosts",
        "allow",
        "methods",
        "deny",
        "paths",
        "inject",
        "bearer",
        "id",
    ]
    return [GOOD.replace(f"{key}:", f"{key[:1]}{key[2:]}:", 1) for key in keys]


@pytest.mark.parametrize("text", typos())
def test_a_typo_is_refused_with_its_line(text: str) -> None:
    """S-32: an unknown key is never ignored."""
    found = errors(text)
    assert found
    assert all(line.startswith("hosts.yaml:") for line in found)
    assert loaded(text).policy is None


@pytest.mark.parametrize(
    "key", ["alow", "denny", "inejct", "path", "method", "allow_all", "Deny", "DENY", "deny ", "rules"]
)
def test_a_misspelt_key_of_an_entry_opens_nothing(key: str) -> None:
    """`{denny: ...}` beside nothing else would be a whole host."""
    (found,) = errors(RuleText("a", json.dumps({"version": 1, "hosts": {"api.example.com": {key: []}}})))
    assert f"unknown key `{key}`" in found


@pytest.mark.parametrize("order", [1, -1])
def test_where_rules_overlap_the_deny_wins_in_any_order(order: int) -> None:
    """S-33."""
    allow = ["{id: all}", "{id: keys, paths: ['/keys/**']}"][::order]
    deny = ["{id: no-keys, paths: ['/keys/**']}", "{id: no-put, methods: [PUT]}"][::order]
    rules = policy(f"hosts: {{api.example.com: {{allow: [{', '.join(allow)}], deny: [{', '.join(deny)}]}}}}")
    assert decision_text(rules, f"GET {API}/keys/1") == "deny no-keys"
    assert not ask(rules, f"PUT {API}/keys").allowed
    assert ask(rules, f"GET {API}/x").allowed


@pytest.mark.parametrize(
    "hosts",
    [
        "[other.example.com]",
        '["*.api.example.com"]',
        "[example.com]",
        '["api.example.com:8443"]',
        "[xapi.example.com]",
        "[]",
    ],
)
def test_a_secret_goes_nowhere_but_to_the_hosts_it_is_bound_to(hosts: str) -> None:
    """S-05's neighbour: a rule cannot widen the binding of a secret."""
    assert loaded(GOOD.replace("[api.example.com]", hosts)).policy is None


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("{allow: all, inject: [{bearer: token}]}", "*.example.com"),
        ("{allow: all, inject: [{bearer: token}], ports: [443, 444]}", "api.example.com"),
        ("{allow: all, inject: [{bearer: token}], http: true}", "api.example.com"),
        ("{allow: all, inject: [{bearer: token}], ports: [], http: [443]}", "api.example.com"),
        ("{intercept: never, inject: [{bearer: token}]}", "api.example.com"),
        ("{allow: all, inject: [{bearer: token}], mode: observe}", "api.example.com"),
        ("{allow: all, inject: [{bearer: token, basic: {user: u, secret: token}}]}", "api.example.com"),
        ("{allow: all, inject: [{bearer: token}, {basic: {user: u, secret: token}}]}", "api.example.com"),
        ("{inject: [{bearer: token}]}", "api.example.com"),
    ],
)
def test_an_entry_that_could_leak_its_secret_does_not_load(entry: str, key: str) -> None:
    text = f"""
        secrets: {{token: {{from: "env:TOKEN", hosts: [api.example.com]}}}}
        hosts: {{"{key}": {entry}}}
    """
    assert loaded(text).policy is None


def test_a_public_suffix_gets_no_secret() -> None:
    """Anybody can register a name there."""
    for suffix in ("*.github.io", "**.co.uk", "*.com", "**.s3.amazonaws.com"):
        text = GOOD.replace("[api.example.com]", f'["{suffix}"]')
        assert any("anybody can register" in line for line in errors(text))


def test_the_destination_alone_decides_whatever_the_head_says() -> None:
    """S-11 at the rules: a foreign Host header neither opens a host nor moves a secret."""
    rules = policy(GOOD)
    foreign = replace(head("GET https://other.example.com/x"), headers=(("host", "api.example.com"),))
    decision = decide(rules, Identity("box"), foreign, NOW)
    assert (decision.entry, decision.effects.needs) == ("other.example.com", ())
    evil = replace(head("GET https://evil.example/x"), headers=(("host", "api.example.com"),))
    assert decide(rules, Identity("box"), evil, NOW).code == "host.unknown"


@pytest.mark.parametrize(
    "value",
    ["x\\ny", "x\\ry", "x\\0y", "Bearer {}\\r\\nX-Admin: 1", "{}\\n", "\\t{}", "é{}", "{}\\x7f"],
)
def test_no_control_character_enters_a_head_through_the_file(value: str) -> None:
    """S-35's neighbour: what surrounds a secret in a header is checked like the secret."""
    item = f'{{header: {{name: x-key, secret: token, format: "{value}"}}}}'
    assert loaded(GOOD.replace("{bearer: token}", item)).policy is None


@pytest.mark.parametrize(
    "name", ["host", "Transfer-Encoding", "content-length", "connection", "cookie", "x\\r\\ny", "a b", ""]
)
def test_no_injection_writes_a_header_that_frames_or_routes(name: str) -> None:
    item = f'{{header: {{name: "{name}", secret: token}}}}'
    assert loaded(GOOD.replace("{bearer: token}", item)).policy is None
    assert (
        loaded(GOOD.replace("{bearer: token}", "{header: {name: x-key, secret: token}}")).policy is not None
    )


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nhosts: &h {api.example.com: {}}\n",
        "version: 1\nhosts: {<<: {api.example.com: {}}}\n",
        "version: 1\nhosts: !!python/object:os.system {}\n",
        "version: 1\nhosts: {api.example.com: {allow: []}, api.example.com: {}}\n",
        "version: 1\nhosts: {api.example.com: {allow: []}, API.example.com: {}}\n",
        "version: 1\nhosts: {api.example.com: {}}\n---\nversion: 1\nhosts: {}\n",
        "version: 1\nhosts: {api.example.com: {}} # \u202e }{ :moc.live\n",
        "version: 1\nhosts:\n  api.example.com: {}\u2028  evil.example: {}\n",
        "version: 1\nhosts: {api.example.com: {allow: no}}\n",
        "version: 1\nhosts: {api.example.com: no}\n",
    ],
)
def test_what_a_reviewer_may_misread_is_refused(text: str) -> None:
    assert loaded(RuleText("hosts.yaml", text)).policy is None


def test_an_alias_bomb_does_not_go_off() -> None:
    bomb = "a: &a [x]\n" + "".join(f"k{n}: &n{n} [{', '.join(['*a'] * 50)}]\n" for n in range(50))
    result = load([RuleText("hosts.yaml", bomb)])
    assert result.policy is None


def test_a_deep_or_huge_file_ends_in_a_finding() -> None:
    deep = load([RuleText("deep.yaml", "version: 1\nhosts: " + "[" * 100_000)])
    assert [finding.message for finding in deep.findings] == ["nesting is deeper than 16 levels"]
    huge = load([RuleText("huge.yaml", "#" * (16 * 1024 * 1024 + 1))])
    assert [finding.message for finding in huge.findings] == ["the file is larger than 16 MiB"]
