"""A profile that the rules do not know never ends in more than was meant."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.policy.profile_check import check_profile, refuse_without_profiles
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.policy import Policy

WITH = "version: 1\nprofiles:\n  small: {hosts: [a.example.com]}\nhosts:\n  a.example.com: {}\n"
WITHOUT = "version: 1\nhosts:\n  a.example.com: {}\n"


def loaded(text: str) -> LoadResult:
    return load([RuleText("hosts.yaml", text)])


def policy(text: str) -> Policy:
    found = loaded(text).policy
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "profile"), [(WITH, "small"), (WITH, None), (WITHOUT, None)])
def test_a_profile_that_is_there_and_none_at_all_are_fine(text: str, profile: str | None) -> None:
    check_profile(policy(text), profile)


@pytest.mark.parametrize(
    ("profile", "hint"), [("smal", "did you mean `small`?"), ("zzz", "known profiles: small")]
)
def test_one_that_is_not_there_is_an_error_that_lists_what_is(profile: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"--profile {profile}: these rules have no such profile") as caught:
        check_profile(policy(WITH), profile)
    assert hint in caught.value.hint
    assert "small" in caught.value.hint


def test_rules_without_profiles_would_give_everything_so_a_name_is_an_error() -> None:
    with pytest.raises(UsageError, match="these rules have no profiles") as caught:
        check_profile(policy(WITHOUT), "small")
    assert "`profiles:`" in caught.value.hint


def test_new_rules_without_profiles_are_refused_while_one_is_in_use() -> None:
    found = refuse_without_profiles(loaded(WITHOUT), ["small", None], "hosts.yaml")
    assert found.policy is None
    assert "they would get all rules" in found.findings[-1].message
    assert str(found.findings[-1].place) == "hosts.yaml:1:1"


@pytest.mark.parametrize(
    ("text", "in_use"),
    [(WITHOUT, [None]), (WITHOUT, []), (WITH, ["small"]), (WITH, ["gone"]), ("hots: {}", ["small"])],
)
def test_other_rules_stay_what_they_are(text: str, in_use: list[str | None]) -> None:
    """Those that merely lack the name deny it everything."""
    before = loaded(text)
    assert refuse_without_profiles(before, in_use, "hosts.yaml") is before
