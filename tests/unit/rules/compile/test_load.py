"""From texts to a policy: all files at once, all mistakes at once."""

from __future__ import annotations

import hashlib

import pytest

from egress.rules.compile.load import RuleText, load
from egress.types import Severity
from tests.unit.rules.rule_samples import NOW, decision_text, errors, loaded, policy, warnings


def test_there_is_a_policy_only_without_errors() -> None:
    assert loaded("hosts: {a.example.org: {}}").policy is not None
    assert loaded("hosts: {a.example.org: 3}").policy is None
    warned = loaded('hosts: {"*.com": {}}')
    assert warned.policy is not None
    assert [finding.severity for finding in warned.findings] == [Severity.WARNING]


def test_findings_come_in_reading_order() -> None:
    result = load(
        [
            RuleText("b.yaml", "version: 1\nmode: x\nhosts: {a: 1}\n"),
            RuleText("a.yaml", "version: 2\nhots: 1\n"),
        ],
        {},
        NOW,
    )
    assert [str(finding.place) for finding in result.findings] == [
        "b.yaml:2:7",
        "b.yaml:3:12",
        "a.yaml:1:10",
        "a.yaml:2:1",
    ]


def test_the_digest_names_the_texts_and_where_they_end() -> None:
    one = load([RuleText("a", "version: 1\n")]).policy
    same = load([RuleText("other name", "version: 1\n")]).policy
    other = load([RuleText("a", "version: 1 \n")]).policy
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.digest == same.digest != other.digest
    split = [
        load([RuleText("a", "version: 1\n#x"), RuleText("b", "\nversion: 1\n")]),
        load([RuleText("a", "version: 1\n#"), RuleText("b", "x\nversion: 1\n"[1:])]),
    ]
    assert len({part.policy.digest for part in split if part.policy}) == 2


def test_the_digest_is_over_each_text_behind_its_length() -> None:
    """Whoever keeps the digest of rules that were looked at must be able to make it again."""
    rules = load([RuleText("a", "version: 1\n"), RuleText("b", "version: 1 \n")]).policy
    assert rules is not None
    assert rules.digest == hashlib.sha256(b"11:version: 1\n12:version: 1 \n").hexdigest()


def test_the_digest_is_the_same_in_whatever_order_files_are_named() -> None:
    one = RuleText("a.yaml", "version: 1\nhosts: {a.example: {}}\n")
    other = RuleText("b.yaml", "version: 1\nhosts: {b.example: {}}\n")
    digests = {part.policy.digest for part in (load([one, other]), load([other, one])) if part.policy}
    assert len(digests) == 1


def test_the_digest_names_the_presets_that_are_used_and_no_others() -> None:
    """An upgrade that changes a preset changes the rules, though no file of the user's has changed."""
    text = "version: 1\nuse: [one]\n"
    one, other = "title: One\nhosts: {a.example: {}}\n", "title: One\nhosts: {b.example: {}}\n"

    def digest(presets: dict[str, str]) -> str:
        loaded = load([RuleText("hosts.yaml", text)], presets)
        return loaded.policy.digest if loaded.policy else ""

    assert digest({"one": one}) == digest({"one": one, "two": other}) != digest({"one": other})


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("hosts: 3\n", "1:8: this must be a mapping (write names on the left, their contents below)"),
        (
            "secrets: []\n",
            "1:1: this must be a mapping (write names on the left, their contents below)",
        ),
        (
            "profiles: x\n",
            "1:11: this must be a mapping (write names on the left, their contents below)",
        ),
        ("deny: {}\n", "1:1: this must be a list (begin each item with `- `)"),
        ("use: x\n", "1:6: this must be a list (begin each item with `- `)"),
        ("networks: 3\n", "1:11: this must be a list (begin each item with `- `)"),
        ("tests: x\n", "1:8: this must be a list (begin each item with `- `)"),
        ("limits: 3\n", "1:9: this must be a mapping, not a number ()"),
        ("mode: [observe]\n", "1:1: `mode` must be `enforce` or `observe`"),
        ("deny: [3]\n", "1:8: this must be a mapping, not a number ()"),
        ("networks: [x]\n", "1:12: this must be a mapping, not text ()"),
        ("- x\n", "1:1: a rule file must be a mapping (start with `version: 1`)"),
    ],
)
def test_says_what_a_section_must_be(text: str, finding: str) -> None:
    found = list(errors(text if text[0] != "-" else RuleText("hosts.yaml", text)))
    assert len(found) == 1
    assert found[0].startswith(f"hosts.yaml:{finding}")


@pytest.mark.parametrize(
    "section", ["hosts", "secrets", "profiles", "deny", "use", "networks", "tests", "limits", "mode"]
)
def test_a_section_without_a_value_is_reported_once(section: str) -> None:
    (found,) = errors(f"{section}:\n")
    assert found.startswith(f"hosts.yaml:1:{len(section) + 2}: the value is missing")


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {a.example.org: ~}", "hosts: {a.example.org: {allow: ~}}",
        "hosts: {a.example.org: {allow: [~]}}",
        (
        "hosts: {a.example.org:"
        " {allow: [{id: ~}]}}"
        ), "hosts: {a.example.org: {paths: [~]}}", "deny: [~]", "use: [~]",
        "secrets: {s: ~}", "secrets: {s: {from: ~, hosts: [a.example.org]}}", "networks: [~]", "tests: [~]",
        "profiles: {p: ~}", "hosts: {a.example.org: {http: ~}}", "hosts: {a.example.org: {query: {q: ~}}}",
        "limits: {connections: ~}", "use: [{p: ~}]", "hosts: {a.example.org: {inject: [{bearer: ~}]}}",
    ],
)  # fmt: skip
def test_a_value_that_is_not_there_is_reported_once(text: str) -> None:
    found = errors(text, presets={"p": "title: P\n"})
    assert len([line for line in found if "the value is missing" in line]) == 1
    assert all("the value is missing" in line or "exactly one kind" in line for line in found)


def test_mistakes_do_not_hide_each_other() -> None:
    found = errors("""
        secrets: {A: {from: x, hosts: []}}
        hosts:
          a..b: {}
          a.example.org: {methods: [get, TRACE], paths: [x], query: {}, denny: 1}
          b.example.org: {allow: [{id: X, methods: []}, {methods: [GET]}], inject: [{}, {bearer: nobody}]}
        deny: [{id: d}]
        mode: x
        limits: {burst: 0}
        networks: [{cidr: x}]
        tests: [x]
        use: [x]
        nothing: 1
    """)
    assert len(found) >= 13


def test_a_syntax_error_ends_the_reading_of_its_own_file_alone() -> None:
    result = load([RuleText("a", "version: 1\nhosts: [\n"), RuleText("b", "version: 1\nhosts: {a..b: {}}\n")])
    assert [finding.place.file for finding in result.findings] == ["a", "b"]


def test_a_mapping_without_keys_lacks_the_version() -> None:
    """An empty file of rules would close everything, and be taken for one that somebody has written."""
    result = load([RuleText("a", "{}")])
    assert result.policy is None
    assert [finding.message for finding in result.findings] == ["the key `version` is missing"]


@pytest.mark.parametrize("text", ["~\n", "version: ~\n", "~: 1\n"])
def test_a_file_whose_only_value_is_missing_says_so_once(text: str) -> None:
    result = load([RuleText("a", text)])
    assert result.policy is None
    assert len(result.findings) == (2 if text == "~: 1\n" else 1)


def test_a_missing_value_does_not_hide_the_mistakes_below_it() -> None:
    assert len(errors("mode: ~\nhosts: 3\n")) == 2


def test_a_text_that_no_encoding_writes_is_reported() -> None:
    (finding,) = load([RuleText("a", "version: 1 # \ud800\n")]).findings
    assert "lone surrogate" in finding.message


def test_without_presets_none_can_be_used() -> None:
    (finding,) = load([RuleText("a", "version: 1\nuse: [p]\n")]).findings
    assert "unknown preset `p`" in finding.message


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_the_mode_is_the_one_that_is_written(mode: str) -> None:
    assert policy(f"mode: {mode}").mode == mode


def test_rules_are_enforced_where_nothing_is_said_of_a_mode() -> None:
    assert policy("version: 1").mode == "enforce"


def test_a_mistake_in_a_secret_of_a_preset_is_reported_at_its_use() -> None:
    (found,) = errors("use: [p]", presets={"p": "title: P\nsecrets: {s: 3}\n"})
    assert found.startswith("hosts.yaml:1:7")


def test_the_narrower_of_two_networks_decides_whichever_is_written_first() -> None:
    wide, narrow = "{cidr: 10.0.0.0/8, ports: [80]}", "{cidr: 10.1.0.0/16, ports: [443]}"
    for text in (f"networks: [{wide}, {narrow}]", f"networks: [{narrow}, {wide}]"):
        assert [str(item.network) for item in policy(text).networks] == ["10.1.0.0/16", "10.0.0.0/8"]


def test_a_profile_may_name_a_network() -> None:
    rules = policy("networks: [{cidr: 10.0.0.0/8}]\nprofiles: {p: {hosts: [10.0.0.0/8]}}")
    assert decision_text(rules, "GET https://10.1.2.3/", profile="p").startswith("allow")
    assert decision_text(rules, "GET https://10.1.2.3/").startswith("deny")


def test_nothing_is_warned_of_in_an_entry_that_has_errors() -> None:
    assert warnings("hosts: {'*.com': {}}") != []
    assert warnings("hosts: {'*.com': {allow: all, deny: [{id: d}]}}") == []


def test_a_test_may_name_any_profile_where_there_are_none() -> None:
    case = "{request: 'GET https://a.example.org/', expect: allow, profile: p}"
    assert errors(f"hosts: {{a.example.org: {{}}}}\ntests: [{case}]") == []
    assert errors(f"hosts: {{a.example.org: {{}}}}\nprofiles: {{q: {{hosts: []}}}}\ntests: [{case}]") != []


@pytest.mark.parametrize(
    ("ports", "url"),
    [
        ("", "https://a.example.org/x"),
        ("ports: [99, 443], ", "https://a.example.org/x"),
        ("ports: [442], ", "https://a.example.org:442/x"),
        ("ports: [8443, 444], ", "https://a.example.org:444/x"),
        ("ports: [], http: true, ", "http://a.example.org/x"),
        ("ports: [], http: [8080, 81], ", "http://a.example.org:81/x"),
    ],
)
def test_a_bare_path_in_a_test_means_the_plainest_port_of_its_entry(ports: str, url: str) -> None:
    (case,) = policy(f"hosts: {{a.example.org: {{{ports}tests: [GET /x -> allow]}}}}").cases
    assert case.url == url


def test_tests_beside_no_port_at_all_hide_nothing() -> None:
    (found,) = errors("hosts: {a.example.org: {ports: [], tests: [GET /x -> allow]}}")
    assert "this entry has no port" in found


def test_a_broken_preset_is_reported_once_however_often_it_is_used() -> None:
    found = errors("use: [p, p]\n", presets={"p": "title: [\n"})
    assert len(found) == 1
    assert found[0].startswith("preset p:")


def test_one_preset_may_serve_two_uses() -> None:
    preset = "title: P\nparameters: {h: {type: host, help: h}}\nhosts: {'${h}': {}}\n"
    rules = policy("use: [{p: {h: a.example.org}}, {p: {h: b.example.org}}]", presets={"p": preset})
    assert sorted(entry.key for entry in rules.entries.values()) == ["a.example.org", "b.example.org"]


def test_a_host_key_that_looks_like_a_credential_is_refused_unshown() -> None:
    key = "0123456789abcdef" * 2
    (found,) = errors(f"hosts: {{{key}.example.org: {{}}}}")
    assert "this key looks like a credential (not shown)" in found
    assert key not in found
