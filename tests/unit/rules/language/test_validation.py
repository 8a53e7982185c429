"""What the validator says, in our words."""

from __future__ import annotations

import pytest

from egress.rules.language.document import read
from egress.rules.language.model import Host, RuleFile, SecretItem
from egress.rules.language.report import DocumentCursor, Report
from egress.rules.language.validation import keys_of, validate


def said(text: str) -> list[str]:
    """The findings about one host entry."""
    report = Report()
    document, _ = read("f", text)
    assert validate(Host, document.value, DocumentCursor(report, document)) is None
    return [
        f"{finding.place.line}:{finding.place.column}: {finding.message} ({finding.hint})"
        for finding in report.findings
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("methods: GET\n", "1:10: this must be a list, not text (put it in brackets: [...])"),
        ("methods: [1]\n", "1:11: this must be text, not a number (put it in quotes)"),
        ("methods: {a: b}\n", "1:1: this must be a list, not a mapping ()"),
        ("methods: [[a]]\n", "1:11: this must be text, not a list ()"),
        ("expires: true\n", "1:10: this must be text, not true or false ()"),
        ("expires: 1.5\n", "1:10: this must be text, not a number (put it in quotes)"),
        ("http2: 'true'\n", "1:8: this must be true or false, not text ()"),
        ("http2: ''\n", "1:8: this must be true or false, not nothing ()"),
        ("http: 8080\n", "1:7: this must be true or list of ports, not a number ()"),
        ("ports: ['443']\n", "1:9: this must be a whole number, not text ()"),
        ("ports: [0]\n", "1:9: this must be at least 1 ()"),
        ("ports: [65536]\n", "1:9: this must be at most 65535 ()"),
        ("allow: some\n", "1:8: `some` is not one of `all` (known here: `all`)"),
        ("allow: {}\n", "1:1: this must be text or a list, not a mapping ()"),
        ("allow: [x]\n", "1:9: this must be a mapping, not text ()"),
        (
            "scrub: none\n",
            "1:8: `none` is not one of `mask`, `block` or `off` (known here: `block`, `mask`, `off`)",
        ),
        ("scrub: 1\n", "1:8: this must be `mask`, `block` or `off`, not a number ()"),
        ("query: {q: 1}\n", "1:12: this must be text or a mapping, not a number ()"),
        ("query: {q: {absent: false}}\n", "1:21: this must be `true`, not true or false ()"),
        ("limits: {conections: 1}\n", "1:10: unknown key `conections` (did you mean `connections`?)"),
        ("allow: [{id: a, pathes: []}]\n", "1:17: unknown key `pathes` (did you mean `paths`?)"),
        (
            "inject: [{header: {nam: x, secret: s}}]\n",
            "1:11: the key `name` is missing (Name of the header.)",
        ),
        (
            "inject: [{bearer: s, for: []}]\n",
            (
                "1:22: this list must not be empty (name allow rules; without `for` it applies to"
                " every allowed request)"
            ),
        ),
        ("tests: [{request: 'GET /', expect: allow, wen: x}]\n", "1:42: unknown key `wen` ("),
    ],
)
def test_says_what_stands_there_and_what_should(text: str, finding: str) -> None:
    found = said(text)
    if finding.endswith(" ("):
        assert found[0].startswith(finding.replace("1:42", "1:43"))
    else:
        assert finding in found


@pytest.mark.parametrize("text", ["alow: {'a b': c}\n", "allow: {'a b': c}\n", "scrub: {'a b': c}\n"])
def test_a_blank_in_a_key_below_a_wrong_one_hides_nothing(text: str) -> None:
    """Refused without a finding, the entry would be left out, and the rest of the file would hold."""
    assert len(said(text)) == 1


def test_says_everything_at_once() -> None:
    assert len(said("methods: 1\npaths: 2\nhttp2: 3\nfoo: 4\n")) == 4


def test_a_sound_value_is_handed_on() -> None:
    report = Report()
    document, _ = read("f", "from: 'env:A'\nhosts: [a.example]\n")
    model = validate(SecretItem, document.value, DocumentCursor(report, document))
    assert model is not None
    assert model.hosts == ["a.example"]
    assert not report.findings


def test_what_is_missing_altogether_is_not_reported_twice() -> None:
    report = Report()
    document, findings = read("f", "methods: [~]\nhttp2:\nlimits: {requests: ~}\n")
    assert len(findings) == 3
    assert validate(Host, document.value, DocumentCursor(report, document)) is None
    assert not report.findings


def test_knows_the_keys_of_every_level() -> None:
    assert "version" in keys_of(RuleFile, ())
    assert "methods" in keys_of(RuleFile, ("hosts", "a.example"))
    assert keys_of(RuleFile, ("hosts", "a.example", "limits")) == [
        "requests", "burst", "request_body", "response_body", "connections",
    ]  # fmt: skip
    assert "for" in keys_of(Host, ("inject", 0))
    assert "only_for" not in keys_of(Host, ("inject", 0))


def test_the_word_for_a_credential_is_never_the_credential() -> None:
    secret = "ghp_" + "a1B2" * 9
    for text in (f"{secret}: 1\n", f"scrub: {secret}\n", f"query: {{{secret}: 1}}\n", f"allow: {secret}\n"):
        assert all(secret not in line for line in said(text))
