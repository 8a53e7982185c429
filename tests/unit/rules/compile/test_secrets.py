"""Where secrets come from: the schemes, and the sentences about them."""

from __future__ import annotations

import pytest

from egress.rules.compile.secrets import NAME_PATTERN, RESERVED_SCHEMES, SCHEMES
from tests.unit.rules.rule_samples import errors, policy


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_each_scheme_wants_a_reference_and_says_what_it_is(scheme: str) -> None:
    (found,) = errors(f"secrets:\n  s: {{from: '{scheme}: ', hosts: [a.example]}}\n")
    assert found == f"hosts.yaml:2:13: `{scheme}:` needs a reference ({scheme}: is {SCHEMES[scheme]})"


@pytest.mark.parametrize("scheme", sorted(RESERVED_SCHEMES))
def test_a_source_that_nothing_resolves_is_an_error_with_file_line_cause_and_cure(scheme: str) -> None:
    """Found before a request is denied for it, with or without a reference, and used or not."""
    for reference in ("", "kv/token"):
        (found,) = errors(f"secrets:\n  s: {{from: '{scheme}:{reference}', hosts: [a.example]}}\n")
        cause = f"`{scheme}:` is not resolved by this version"
        assert found == f"hosts.yaml:2:13: {cause} ({RESERVED_SCHEMES[scheme]})"
        assert "`file:`" in found or "`{command: [" in found


@pytest.mark.parametrize("name", ["a", "a-b_c1", "a" * 63])
def test_takes_a_name(name: str) -> None:
    assert NAME_PATTERN.fullmatch(name)
    policy(f"secrets: {{{name}: {{from: 'env:A', hosts: [a.example]}}}}")


@pytest.mark.parametrize("name", ["", "A", "1a", "a.b", "a b", "a" * 64, "ä"])
def test_refuses_what_is_no_name(name: str) -> None:
    assert any(
        "is not a secret name" in line
        for line in errors(f"secrets: {{'{name}': {{from: 'env:A', hosts: [a.example]}}}}")
    )


def test_a_command_is_split_as_a_shell_would_and_run_without_one() -> None:
    secret = policy("""secrets: {s: {from: "command:pass show 'a b' $HOME", hosts: [a.example]}}""").secrets[
        "s"
    ]
    assert secret.reference == ("pass", "show", "a b", "$HOME")


@pytest.mark.parametrize(
    "source", ["ghp_" + "a1B2" * 9, "AKIA" + "IOSFODNN7EXAMPLE", "hunter2", "env:hunter-2", "Bearer x"]
)
def test_no_sentence_about_a_source_repeats_it(source: str) -> None:
    (found,) = errors(f"secrets: {{s: {{from: '{source}', hosts: [a.example]}}}}")
    assert source.removeprefix("env:") not in found


def test_a_wrong_secret_is_not_blamed_on_who_injects_it() -> None:
    (found,) = errors("""
        secrets: {s: {hosts: [a.example]}}
        hosts: {a.example: {allow: all, inject: [{bearer: s}]}}
    """)
    assert "the key `from` is missing" in found


def test_only_a_command_is_split() -> None:
    rules = policy("secrets: {s: {from: 'file:/run/my secret', hosts: [a.example]}}")
    assert rules.secrets["s"].reference == ("/run/my secret",)


@pytest.mark.parametrize("port", [1, 443, 65535])
def test_a_secret_may_be_bound_to_any_port_there_is(port: int) -> None:
    rules = policy(f"secrets: {{s: {{from: 'env:A', hosts: ['a.example:{port}']}}}}")
    assert [binding.port for binding in rules.secrets["s"].bindings] == [port]


@pytest.mark.parametrize("port", ["0", "65536", "99999", "123456", "4430000", "", "https", "-1", "44 3"])
def test_a_secret_is_bound_to_no_port_that_there_is_not(port: str) -> None:
    assert len(errors(f"secrets: {{s: {{from: 'env:A', hosts: ['a.example:{port}']}}}}")) == 1


@pytest.mark.parametrize("variable", ["TOKEN", "token", "_T", "T1_a", "x"])
def test_takes_the_name_of_any_variable(variable: str) -> None:
    rules = policy(f"secrets: {{s: {{from: 'env:{variable}', hosts: [a.example]}}}}")
    assert rules.secrets["s"].reference == (variable,)


@pytest.mark.parametrize("variable", ["1T", "[T", "]T", "T-A", "T.A", "T A"])
def test_what_is_no_name_of_a_variable_is_refused(variable: str) -> None:
    assert len(errors(f"secrets: {{s: {{from: 'env:{variable}', hosts: [a.example]}}}}")) == 1


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("tokens/tracker", ("tokens", "tracker")),
        ("a/B_c.d-e", ("a", "B_c.d-e")),
        ("team.example.com/.dockerconfigjson", ("team.example.com", ".dockerconfigjson")),
        (f"{'a-' * 126}a/{'k.' * 126}k", (f"{'a-' * 126}a", f"{'k.' * 126}k")),
    ],
)
def test_a_secret_of_the_cluster_is_a_name_and_a_key(reference: str, parts: tuple[str, str]) -> None:
    found = policy(f"secrets: {{s: {{from: 'k8s:{reference}', hosts: [a.example]}}}}").secrets["s"]
    assert (found.scheme, found.reference) == ("k8s", parts)


@pytest.mark.parametrize(
    "reference",
    [
        *[
            "tokens",
            "tokens/",
            "/k",
            "a/b/c",
            "A/k",
            "-a/k",
            "a-/k",
            "a..b/k",
            "a/..",
            "a/.",
            "a/k?x",
            "%2e/k",
            "../secrets/k",
        ],
        *("a b/k", "a/k k", f"{'a-' * 127}/k", f"a/{'k.' * 127}"),
    ],
)
def test_anything_else_is_no_secret_of_the_cluster(reference: str) -> None:
    (found,) = errors(f"secrets: {{s: {{from: 'k8s:{reference}', hosts: [a.example]}}}}")
    assert "k8s:NAME/KEY" in found
