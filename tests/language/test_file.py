"""Lines 1 to 3 of docs/reference/language.md: the file as a whole."""

from __future__ import annotations

import pytest

from egress.rules.compile.load import RuleText
from tests.unit.rules.rule_samples import ask, ask_host, decision_text, errors, loaded, policy

EVERY_KEY = """
    version: 1
    secrets: {github: {from: "env:GITHUB", hosts: [api.example.com]}}
    hosts: {api.example.com: {allow: all, inject: [{bearer: github}]}}
    deny: [{id: no-admin, paths: ["/admin/**"]}]
    use: []
    networks: [{cidr: 10.0.0.0/8}]
    profiles: {default: {hosts: [api.example.com]}}
    mode: enforce
    limits: {connections: 9}
    tests: [GET https://api.example.com/ -> allow host, inject github]
"""


def test_01_takes_every_top_key() -> None:
    with pytest.raises(AssertionError):  # a comma in a flow list ends the test: line 39
        policy(EVERY_KEY)
    quoted = EVERY_KEY.replace("[GET", '["GET').replace("github]\n", 'github"]\n')
    assert decision_text(policy(quoted), "GET https://api.example.com/") == "allow host, inject github"


def test_01_refuses_an_unknown_top_key_and_says_what_was_meant() -> None:
    assert errors("version: 1\nhots: {}\n") == ["hosts.yaml:2:1: unknown key `hots` (did you mean `hosts`?)"]


def test_01_wants_a_version() -> None:
    assert errors(RuleText("a.yaml", "hosts: {}\n")) == [
        "a.yaml:1:1: the key `version` is missing (start the file with `version: 1`)"
    ]


@pytest.mark.parametrize("version", ["2", "0", '"1"', "true", "1.0", "one"])
def test_01_refuses_every_other_version(version: str) -> None:
    assert errors(f"hosts: {{}}\nversion: {version}\n") == [
        "hosts.yaml:2:10: the version must be 1 (write `version: 1`)"
    ]


@pytest.mark.parametrize("text", ["", "hosts: {}"])
def test_01_denies_everything_without_hosts(text: str) -> None:
    rules = policy(text)
    assert decision_text(rules, "GET https://api.example.com/") == "deny host.unknown"
    assert ask_host(rules, "https://api.example.com").code == "host.unknown"


def test_02_takes_quoted_plain_and_block_style_alike() -> None:
    flow = policy('hosts: {"api.example.com": {methods: ["GET"]}}')
    block = policy("""
        hosts:
          api.example.com:
            methods:
              - GET
    """)
    for rules in (flow, block):
        assert decision_text(rules, "GET https://api.example.com/") == "allow host"
        assert decision_text(rules, "PUT https://api.example.com/") == "deny rule.none"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "hosts:\n  a.example:\n",
            "2:13: the value is missing (write {} for a whole host, [] for nothing, or remove the key)",
        ),
        (
            "hosts: {a.example: {allow: ~}}\n",
            "1:28: the value is missing (write {} for a whole host, [] for nothing, or remove the key)",
        ),
        (
            "hosts: {a.example: null}\n",
            "1:20: the value is missing (write {} for a whole host, [] for nothing, or remove the key)",
        ),
        ("hosts: &h {}\n", "1:8: anchors are not allowed here (write the value out in each place)"),
        ("hosts: !!map {}\n", "1:8: tags are not allowed here (remove the `!`)"),
        ("hosts: {a.example: {methods: [! GET]}}\n", "1:31: tags are not allowed here (remove the `!`)"),
        ("hosts: {!!str a.example: {}}\n", "1:9: tags are not allowed here (remove the `!`)"),
        ("hosts: {<<: {}}\n", "1:9: merge keys are not allowed here (write the keys out)"),
        (
            "hosts: {a.example: *all}\n",
            (
                "1:20: this is a YAML alias, which rule files do not use "
                '(quote a name that begins with an asterisk: "*.example.com")'
            ),
        ),
        (
            "hosts: {}\nhosts: {}\n",
            "2:1: duplicate key `hosts` (first on line 1) (keep one of them)",
        ),
    ],
)
def test_02_refuses_yaml_beyond_the_subset(text: str, finding: str) -> None:
    assert errors(text) == [f"hosts.yaml:{finding}"]


def test_02_refuses_a_carriage_return_that_stands_alone() -> None:
    """YAML begins a line there and most editors show none: a host hides in what looks like a comment."""
    (found,) = errors("version: 1\n# all is well\rhosts: {evil.example.com: {}}\n")
    assert found.startswith("hosts.yaml:2:14: a carriage return without a line feed")
    assert policy("version: 1\r\nhosts: {a.example.com: {}}\r\n").entries


def test_02_refuses_a_second_document() -> None:
    assert errors("version: 1\n---\nhosts: {}\n") == [
        "hosts.yaml:2:1: a second document begins here (a rule file is one YAML document: remove `---`)"
    ]


def test_03_merges_several_files() -> None:
    rules = policy(
        RuleText("a.yaml", "version: 1\nhosts: {a.example.com: {}}\n"),
        RuleText("b.yaml", "version: 1\nhosts: {b.example.com: {}}\nmode: enforce\n"),
    )
    assert ask(rules, "GET https://a.example.com/").allowed
    assert ask(rules, "GET https://b.example.com/").allowed


@pytest.mark.parametrize(
    ("section", "finding"),
    [
        ("hosts: {api.example.com: {}}", "2:9: duplicate host `api.example.com`"),
        (
            "secrets: {github: {from: 'env:G', hosts: [api.example.com]}}",
            "2:11: duplicate secret `github`",
        ),
        ("profiles: {default: {hosts: []}}", "2:12: duplicate profile `default`"),
        ("networks: [{cidr: 10.0.0.0/8}]", "2:12: duplicate network `10.0.0.0/8`"),
    ],
)
def test_03_names_both_files_of_a_conflict(section: str, finding: str) -> None:
    text = f"version: 1\n{section}\n"
    place = finding.split(": ", 1)[0]
    assert errors(RuleText("a.yaml", text), RuleText("b.yaml", text)) == [
        f"b.yaml:{finding} (first at a.yaml:{place}) (keep one of them)"
    ]


def test_03_takes_another_spelling_of_a_host_for_the_same() -> None:
    found = errors(
        RuleText("a.yaml", "version: 1\nhosts: {api.example.com: {}}\n"),
        RuleText("b.yaml", "version: 1\nhosts: {API.example.com.: {}}\n"),
    )
    assert found == [
        ("b.yaml:2:9: duplicate host `API.example.com.` (first at a.yaml:2:9) (keep one of them)")
    ]


@pytest.mark.parametrize("section", ["mode: observe", "limits: {connections: 3}"])
def test_03_takes_mode_and_limits_from_one_file_only(section: str) -> None:
    text = f"version: 1\n{section}\n"
    key = section.split(":", maxsplit=1)[0]
    found = errors(RuleText("a.yaml", text), RuleText("b.yaml", text))
    assert len(found) == 1
    assert found[0].startswith(f"b.yaml:2:1: `{key}` is set twice (first at a.yaml:2:")
    assert found[0].endswith("(keep one of them)")


def test_03_shows_the_errors_of_all_files_in_one_run() -> None:
    found = errors(
        RuleText("a.yaml", "version: 1\nhosts: {\n"),
        RuleText("b.yaml", "version: 1\nhosts: {a.example: {methods: [TRACE]}, b.example: {deny: []}}\n"),
    )
    assert [line.split(": ")[0] for line in found] == ["a.yaml:3:1", "b.yaml:2:31", "b.yaml:2:40"]


def test_03_lints_the_sound_entries_beside_the_wrong_ones() -> None:
    result = loaded("""
        hosts:
          wrong.example: {methods: [TRACE]}
          sound.example: {allow: [{id: all}, {id: some, paths: [/a]}]}
    """)
    assert result.policy is None
    assert [str(finding) for finding in result.findings][1:] == [
        (
            "hosts.yaml:4:38: the rule sound.example#some adds nothing: sound.example#all allows all of it "
            "(at hosts.yaml:4:27)"
        )
    ]


def test_03_a_wrong_type_does_not_hide_what_stands_beside_it() -> None:
    found = errors(
        """
        hosts:
          a.example.com:
            ports: 8443
            paths: ["^/v1", "/v1/?x=1"]
            inject: [{bearer: none}]
        """
    )
    assert [line.split(": ")[1].split(" (")[0] for line in found] == [
        "this must be a list, not a number",
        "a path pattern must begin with a slash",
        "a path pattern cannot contain a query",
    ]
