"""Full names of refs, as git itself judges them."""

from __future__ import annotations

import subprocess

import pytest

from egress.inspect.git.ref_name import is_ref_name

GOOD = (
    "refs/heads/main",
    "refs/heads/agent/x",
    "refs/heads/agent/PACK",
    "refs/tags/v1.0",
    "refs/for/main%topic=x",
    "refs/heads/a@b",
    "refs/heads/@",
    "refs/heads/{x}",
    "refs/heads/-x",
    "refs/heads/lock",
    "refs/heads/über",
    "refs/stash",
    "refs/heads/HEAD",
)
BAD = (
    "",
    "HEAD",
    "main",
    "heads/main",
    "refs",
    "refs/",
    "refs//main",
    "/refs/heads/main",
    "refs/heads/",
    "refs/heads/../main",
    "refs/heads/a..b",
    "refs/heads/.a",
    "refs/heads/a.",
    "refs/heads/a.lock",
    "refs/heads/a.lock/b",
    "refs/heads/a@{1}",
    "refs/heads/a b",
    "refs/heads/a\tb",
    "refs/heads/a\nb",
    "refs/heads/a\x7f",
    "refs/heads/a~1",
    "refs/heads/a^",
    "refs/heads/a:b",
    "refs/heads/a?",
    "refs/heads/*",
    "refs/heads/[a",
    "refs/heads/a\\b",
    "Refs/heads/main",
)


@pytest.mark.parametrize("name", GOOD)
def test_accepts_full_names(name: str) -> None:
    assert is_ref_name(name)


@pytest.mark.parametrize("name", BAD)
def test_refuses_everything_else(name: str) -> None:
    assert not is_ref_name(name)


@pytest.mark.system("git", "git")
def test_git_judges_alike() -> None:
    for name in (*GOOD, *BAD):
        asked = subprocess.run(["git", "check-ref-format", name], check=False, timeout=30)
        is_full = name.startswith("refs/")
        assert (asked.returncode == 0 and is_full) == is_ref_name(name), name
