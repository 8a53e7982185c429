"""A wildcard over a public suffix covers names of strangers."""

from __future__ import annotations

import pytest

from egress.rules.compile.public_suffixes import is_over_public_suffix
from egress.rules.language.hosts import parse_host_pattern


@pytest.mark.parametrize(
    ("text", "is_over"),
    [
        ("*.co.uk", True),
        ("**.github.io", True),
        ("*.example.co.uk", False),
        ("co.uk", False),
        ("*.internal-only-name", False),
    ],
)
def test_only_wildcards_over_known_suffixes_count(text: str, is_over: bool) -> None:
    assert is_over_public_suffix(parse_host_pattern(text)) is is_over
