"""Rules and predicates from the shapes of the model."""

from __future__ import annotations

import pytest

from tests.unit.rules.rule_samples import errors, policy, warnings


def test_a_method_that_looks_like_a_slip_is_worth_a_word() -> None:
    (found,) = warnings("hosts: {a.example.org: {methods: [GETT]}}")
    assert found == "hosts.yaml:1:35: `GETT` is not a common method (did you mean `GET`?)"
    assert warnings("hosts: {a.example.org: {methods: [PROPFIND, QUERY, M-SEARCH]}}") == []


def test_a_name_and_a_value_are_kept_as_they_travel() -> None:
    (entry,) = policy("hosts: {a.example.org: {query: {ü: 'é*'}}}").entries.values()
    (wanted,) = entry.allow[0].predicates.query
    assert wanted.name.encode("latin-1").decode() == "ü"
    assert wanted.glob is not None
    assert wanted.glob.text.encode("latin-1").decode() == "é*"


@pytest.mark.parametrize("hosts", ["[]", "['a*.example']", "[10.0.0.1]", "[a.example, '']"])
def test_the_hosts_of_a_top_deny_are_patterns(hosts: str) -> None:
    (found,) = errors(f"deny:\n  - {{id: no, hosts: {hosts}}}\n")
    assert found.startswith("hosts.yaml:2:")


def test_an_id_is_not_shown_when_it_looks_like_a_credential() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    (found,) = errors(f"hosts: {{a.example.org: {{allow: [{{id: {secret}}}]}}}}")
    assert "this id looks like a credential (not shown) (ids are shown in every record)" in found
    assert secret not in found


@pytest.mark.parametrize("value", ["{absent: false}", "{}", "[a]", "3", "{absnt: true}"])
def test_a_named_pattern_is_text_or_absent(value: str) -> None:
    assert len(errors(f"hosts: {{a.example.org: {{query: {{q: {value}}}}}}}")) in (1, 2)


def test_an_absent_header_has_no_pattern() -> None:
    (entry,) = policy("hosts: {a.example.org: {headers: {x-a: {absent: true}}}}").entries.values()
    assert entry.allow[0].predicates.headers[0].glob is None


def test_a_limit_stands_at_its_key() -> None:
    (entry,) = policy("hosts:\n  a.example.org:\n    limits: {connections: 1}\n").entries.values()
    assert entry.handling.limit is not None
    assert str(entry.handling.limit.place) == "hosts.yaml:3:5"


@pytest.mark.parametrize("method", ["ANY", "any", "ALL", "All", "'*'"])
def test_a_word_for_every_method_is_refused(method: str) -> None:
    (found,) = errors(f"hosts: {{a.example.org: {{methods: [{method}]}}}}")
    assert found.endswith("is not a method (remove `methods` to allow every method)")


def test_a_deny_names_an_escaped_slash_only_where_it_says_so() -> None:
    deny = "hosts: {{a.example.org: {{allow: all, deny: [{{id: no, paths: ['/a%2Fb'] {}}}]}}}}"
    (found,) = errors(deny.format(""))
    assert "escaped slash" in found
    (entry,) = policy(deny.format(", encoded_slash: data")).entries.values()
    assert entry.deny[0].predicates.encoded_slash


@pytest.mark.parametrize("sign", "!#$%&'*+.^_`|~-019AZ")
def test_a_method_may_have_every_sign_of_a_token(sign: str) -> None:
    text = f'hosts: {{a.example.org: {{methods: ["M{sign}M"]}}}}'
    (entry,) = policy(text).entries.values()
    assert entry.allow[0].predicates.methods == frozenset({f"M{sign}M"})


@pytest.mark.parametrize("sign", "09az!#$&^_.+-")
def test_a_media_type_may_have_every_sign_on_both_sides(sign: str) -> None:
    text = f'hosts: {{a.example.org: {{content_type: ["a{sign}b/c{sign}d"]}}}}'
    (entry,) = policy(text).entries.values()
    assert entry.allow[0].predicates.content_types == (f"a{sign}b/c{sign}d",)
