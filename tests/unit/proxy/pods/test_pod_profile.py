"""The rights of a pod: what is asked for, as far as the rules have it and the template allows it."""

from __future__ import annotations

import pytest

from egress.errors import CODES
from egress.kubernetes.pod_identity import Annotations, IdentityState, PodIdentity
from egress.proxy.pods.pod_profile import ProfileChoice, choose_profile
from tests.unit.rules.rule_samples import policy

PROFILES = policy("""\
parameters: {repo: {pattern: "acme/[a-z]+"}, tag: {pattern: "v[0-9]", default: v1}}
profiles:
  reviewer: {hosts: [a.example]}
  admin: {hosts: [a.example, b.example]}
  default: {hosts: [a.example]}
hosts: {a.example: {paths: ["/{param.repo}/{param.tag}"]}, b.example: {}}
""")
NO_PROFILES = policy("hosts: {a.example: {}}")


def asks_for(profile: str = "", template: dict[str, str] | None = None, **more: str) -> PodIdentity:
    """A claim with a profile and parameters, of a template with these annotations."""
    wishes = {f"egress/param.{name}": value for name, value in more.items()}
    wishes |= {"egress/profile": profile} if profile else {}
    return PodIdentity(
        *("agents", "p", "p-uid", "s", "s-uid", IdentityState.CLAIMED, "c", "c-uid"),
        annotations=tuple(sorted(wishes.items())),
        template=bounds(template or {}),
    )


def bounds(annotations: dict[str, str]) -> Annotations:
    return tuple(sorted((f"egress/{name}", value) for name, value in annotations.items()))


def test_a_profile_of_the_rules_is_given() -> None:
    assert choose_profile(asks_for("reviewer"), PROFILES) == ProfileChoice("reviewer")


def test_without_a_wish_the_rules_say() -> None:
    assert choose_profile(asks_for(), PROFILES) == ProfileChoice()
    assert choose_profile(asks_for(), NO_PROFILES) == ProfileChoice()


def test_a_profile_that_the_rules_lack_denies_everything() -> None:
    """Rules without any profile would allow everything."""
    for rules in (PROFILES, NO_PROFILES):
        assert choose_profile(asks_for("root"), rules).code == "profile.unknown"


def test_a_template_has_the_profile_of_claims_that_ask_for_none() -> None:
    assert choose_profile(asks_for(template={"profile": "reviewer"}), PROFILES).profile == "reviewer"
    assert choose_profile(asks_for("admin", template={"profile": "reviewer"}), PROFILES).profile == "admin"
    assert choose_profile(asks_for(template={"profile": "root"}), PROFILES).code == "profile.unknown"


@pytest.mark.parametrize(
    ("asked", "template", "profile"),
    [
        ("reviewer", {"profile-max": "reviewer"}, "reviewer"),
        ("reviewer", {"profile-max": "admin, reviewer"}, "reviewer"),
        ("", {"profile-max": "default"}, None),
        ("", {"profile-max": "reviewer", "profile": "reviewer"}, "reviewer"),
    ],
)
def test_a_profile_below_the_ceiling_is_given(
    asked: str, template: dict[str, str], profile: str | None
) -> None:
    assert choose_profile(asks_for(asked, template), PROFILES) == ProfileChoice(profile)


@pytest.mark.parametrize(
    ("asked", "template"),
    [
        ("admin", {"profile-max": "reviewer"}),
        ("admin", {"profile-max": ""}),
        ("admin", {"profile-max": "administrator"}),
        ("admin", {"profile-max": "reviewer admin"}),
        ("", {"profile-max": "reviewer"}),
        ("", {"profile-max": "reviewer", "profile": "admin"}),
    ],
)
def test_a_profile_beyond_the_ceiling_denies_everything(asked: str, template: dict[str, str]) -> None:
    found = choose_profile(asks_for(asked, template), PROFILES)
    assert (found.code, found.profile, found.parameters) == ("profile.ceiling", None, ())


def test_rules_without_profiles_are_beyond_every_ceiling() -> None:
    assert (
        choose_profile(asks_for(template={"profile-max": "default"}), NO_PROFILES).code == "profile.ceiling"
    )


def test_a_template_that_is_not_there_denies_everything() -> None:
    found = asks_for("reviewer")
    gone = PodIdentity(found.namespace, "p", "p-uid", "s", "s-uid", found.state, "c", "c-uid", (), None)
    assert choose_profile(gone, PROFILES).code == "profile.ceiling"


def test_parameters_of_the_claim_are_given() -> None:
    assert choose_profile(asks_for("admin", repo="acme/site"), PROFILES) == ProfileChoice(
        "admin", (("repo", "acme/site"),)
    )
    found = choose_profile(asks_for(repo="acme/site", tag="v2"), PROFILES)
    assert found.parameters == (("repo", "acme/site"), ("tag", "v2"))


@pytest.mark.parametrize(
    "given",
    [
        {"repo": "other/site"},
        {"repo": ""},
        {"repo": "acme/../x"},
        {"repo": "acme/site\n"},
        {"repo": "acme/" + "a" * 5000},
        {"Repo": "acme/site"},
        {"unknown": "x"},
        {"": "x"},
        {"repo": "acme/site", "tag": "9"},
    ],
)
def test_a_value_that_the_rules_refuse_denies_everything(given: dict[str, str]) -> None:
    found = choose_profile(asks_for("reviewer", None, **given), PROFILES)
    assert (found.code, found.profile, found.parameters) == ("parameter.refused", None, ())
    assert found.cause
    assert not any(value in found.cause for value in given.values() if len(value) > 3)


def test_a_value_of_the_template_cannot_be_changed() -> None:
    pinned = {"param.repo": "acme/site"}
    assert choose_profile(asks_for(template=pinned), PROFILES).parameters == (("repo", "acme/site"),)
    assert choose_profile(asks_for(template=pinned, repo="acme/site"), PROFILES).code == ""
    assert choose_profile(asks_for(template=pinned, repo="acme/other"), PROFILES).code == "parameter.refused"


def test_each_code_has_its_sentence_and_is_final() -> None:
    for code in ("profile.unknown", "profile.ceiling", "parameter.refused"):
        assert CODES[code].is_final
