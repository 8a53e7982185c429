"""`canaries:` in a rule file."""

from __future__ import annotations

from egress.rules.load import Source, load
from egress.rules.show import as_text

TEXT = "version: 1\ncanaries:\n  decoy: { like: aws }\n  trap: { like: github, stop: true }\n"


def test_canaries_are_read_by_name_shape_and_what_follows() -> None:
    policy = load([Source("hosts.yaml", TEXT)]).policy
    assert policy is not None
    assert [(each.name, each.like, each.stop) for each in policy.canaries] == [
        ("decoy", "aws", False),
        ("trap", "github", True),
    ]
    assert str(policy.canaries[0].place) == "hosts.yaml:3:3"


def test_what_is_shown_means_the_same() -> None:
    policy = load([Source("hosts.yaml", TEXT)]).policy
    assert policy is not None
    again = load([Source("shown", as_text(policy))]).policy
    assert again is not None
    assert [(e.name, e.like, e.stop) for e in again.canaries] == [
        (e.name, e.like, e.stop) for e in policy.canaries
    ]


def test_mistakes_are_told() -> None:
    wrong = "version: 1\ncanaries:\n  Bad: { like: aws }\n  b: { like: gold }\n  c: {}\n"
    assert [str(one.place) for one in load([Source("h", wrong)]).findings] == ["h:3:3", "h:4:14", "h:5:3"]


def test_the_same_name_in_two_files_is_a_conflict() -> None:
    loaded = load([Source("a", TEXT), Source("b", TEXT)])
    assert loaded.policy is None
    assert "decoy" in loaded.findings[0].message
