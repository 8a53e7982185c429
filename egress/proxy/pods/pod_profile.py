"""The profile of a pod: what its claim, or the plain pod itself, asks for, as far as the rules know it."""

from __future__ import annotations

from dataclasses import dataclass

from egress.kubernetes.pod_identity import PodIdentity
from egress.rules.decide.policy import Policy


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profile of a sandbox, or why it may do nothing."""

    profile: str | None = None
    """None if no profile is asked for: the rules have a default then, or no profiles."""
    code: str = ""


def choose_profile(found: PodIdentity, policy: Policy) -> ProfileChoice:
    """Return the profile of an identity. A name that the rules lack denies everything."""
    if found.profile and found.profile not in (policy.profiles or ()):
        return ProfileChoice(code="profile.unknown")
    return ProfileChoice(found.profile or None)
