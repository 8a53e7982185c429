"""The profile of a pod: the one that is asked for, if the rules have it."""

from __future__ import annotations

from egress.kubernetes.pod_identity import IdentityState, PodIdentity
from egress.proxy.pods.pod_profile import ProfileChoice, choose_profile
from tests.unit.rules.rule_samples import policy

PROFILES = policy("profiles: {reviewer: {hosts: [a.example]}}\nhosts: {a.example: {}, b.example: {}}")
NO_PROFILES = policy("hosts: {a.example: {}}")


def asks_for(profile: str) -> PodIdentity:
    wishes = (("egress/profile", profile),) if profile else ()
    return PodIdentity("agents", "p", "p-uid", "s", "s-uid", IdentityState.CLAIMED, "c", "c-uid", wishes)


def test_a_profile_of_the_rules_is_given() -> None:
    assert choose_profile(asks_for("reviewer"), PROFILES) == ProfileChoice("reviewer")


def test_without_a_wish_the_rules_say() -> None:
    assert choose_profile(asks_for(""), PROFILES) == ProfileChoice()
    assert choose_profile(asks_for(""), NO_PROFILES) == ProfileChoice()


def test_a_profile_that_the_rules_lack_denies_everything() -> None:
    """Rules without any profile would allow everything."""
    for rules in (PROFILES, NO_PROFILES):
        assert choose_profile(asks_for("admin"), rules) == ProfileChoice(code="profile.unknown")
