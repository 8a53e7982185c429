"""A rule with placeholders fits nothing until it has values, and then what the text with them would fit."""

from __future__ import annotations

import pytest

from egress.rules.decide.rule_template import RuleTemplate, placeholders_in, widest_path
from tests.unit.rules.rule_samples import policy

RULES = """\
parameters:
  repo: {pattern: "[a-z]+/[a-z.*-]+"}
  branch: {pattern: "[a-z/]+"}
hosts:
  a.example:
    allow:
      - {id: r, paths: ["/{param.repo}.git/**", "/plain/*"], query: {ref: "refs/{param.branch}", x: "1*"}}
"""


def template() -> RuleTemplate:
    rules = policy(RULES.replace("*-]", "-]"))
    (rule,) = next(iter(rules.entries.values())).allow
    assert rule.predicates.paths == ()
    assert rule.template is not None
    return rule.template


def test_values_are_put_into_the_text_that_was_written() -> None:
    filled = template().filled({"repo": "acme/site", "branch": "main", "more": "x"})
    assert filled is not None
    assert [glob.text for glob in filled.paths or ()] == ["/acme/site.git/**", "/plain/*"]
    assert [(each.name, each.glob and each.glob.text) for each in filled.query] == [
        ("ref", "refs/main"),
        ("x", "1*"),
    ]


@pytest.mark.parametrize(
    "values", [{}, {"repo": "acme/site"}, {"branch": "m"}, {"REPO": "a/b", "branch": "m"}]
)
def test_without_every_value_there_is_no_rule(values: dict[str, str]) -> None:
    assert template().filled(values) is None


def test_a_value_is_not_read_for_placeholders_again() -> None:
    filled = template().filled({"repo": "{param.branch}", "branch": "main"})
    # Such a value is refused before; were it not, it would be a text like any other.
    assert filled is None or "main" not in str(filled.paths)


def test_the_widest_reading_of_a_path_takes_any_segments() -> None:
    assert widest_path("/repos/{param.repo}.git/info/*") == "/repos/**/info/*"
    assert placeholders_in("/{param.a}/{param.b}{param.a}") == {"a", "b"}
    assert template().names == {"repo", "branch"}
