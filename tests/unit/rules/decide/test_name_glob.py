"""Patterns for repositories and refs."""

from __future__ import annotations

import pytest

from egress.rules.decide.name_glob import NameGlob


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("acme/app", "acme/app", True),
        ("acme/app", "acme/App", False),
        ("acme/*", "acme/app", True),
        ("acme/*", "acme/tools/forge", False),
        ("acme/*", "acme", False),
        ("acme/**", "acme/tools/forge", True),
        ("acme/**", "acme", True),
        ("**", "acme/app", True),
        ("*/app", "acme/app", True),
        ("refs/heads/agent/**", "refs/heads/agent/x/y", True),
        ("refs/heads/agent/**", "refs/heads/agent-x", False),
        ("refs/heads/agent/**", "refs/heads/Agent/x", False),
        ("refs/heads/agent-*", "refs/heads/agent-x", True),
        ("refs/heads/agent-*", "refs/heads/agent-x/y", False),
        ("refs/heads/**/wip", "refs/heads/a/b/wip", True),
        ("refs/for/main%topic=*", "refs/for/main%topic=x", True),
        ("refs/heads/*ba", "refs/heads/x%ba", True),
        ("refs/heads/*", "refs/heads/a%zz", True),
        ("refs/heads/a.b", "refs/heads/axb", False),
        ("refs/heads/(a|b)", "refs/heads/a", False),
        ("refs/heads/ü*", "refs/heads/über", True),
        ("refs/heads/x", "refs/heads/x\n", False),
    ],
)
def test_matches_by_segments(pattern: str, name: str, expected: bool) -> None:
    assert NameGlob(pattern).matches(name) is expected


def test_a_deny_looks_at_any_case() -> None:
    assert NameGlob("refs/heads/main").matches("refs/heads/MAIN", ignore_case=True)
    assert NameGlob("refs/heads/a/**").matches("refs/heads/A/x", ignore_case=True)
