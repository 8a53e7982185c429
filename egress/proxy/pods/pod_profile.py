"""The rights that a pod asks for: profile and parameters, under the ceiling of its template.

What is asked for stands in annotations of the claim, or of a plain pod. The template of the sandbox belongs
to the platform: it has the profile of claims that ask for none, the profiles that a claim may ask for, and
values that no claim can change. Whatever does not fit denies everything, since other rights than those that
were asked for are noticed late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.kubernetes.pod_identity import PARAMETER_PREFIX, PROFILE_ANNOTATION, Annotations, PodIdentity
from egress.rules.decide.parameters import parameter_fault
from egress.rules.decide.policy import Policy
from egress.rules.language.report import quoted
from egress.types import Parameters, parameters_of

CEILING_ANNOTATION: Final = "egress/profile-max"


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profile and the parameters of a sandbox, or why it may do nothing."""

    profile: str | None = None
    """None if no profile is asked for: the rules have a default then, or no profiles."""
    parameters: Parameters = ()
    code: str = ""
    cause: str = ""
    """Why, for whoever wrote the claim; it quotes no value."""


def choose_profile(found: PodIdentity, policy: Policy) -> ProfileChoice:
    """Return the rights of an identity. What the rules or the template refuse denies everything."""
    if found.template is None:
        return _refused("profile.ceiling", "the template of this sandbox, with its ceiling, is not there")
    template = dict(found.template)
    profile = found.profile or template.get(PROFILE_ANNOTATION) or None
    if profile and profile not in (policy.profiles or ()):
        return _refused("profile.unknown", f"the rules have no profile {quoted(profile)}")
    ceiling = template.get(CEILING_ANNOTATION)
    # Without a section of profiles everybody has all rules, which is more than any ceiling.
    if ceiling is not None and (policy.profiles is None or (profile or "default") not in _names(ceiling)):
        return _refused("profile.ceiling", "the template does not let its claims have this profile")
    pinned, asked = _parameters(found.template), _parameters(found.annotations)
    if any(asked.get(name, value) != value for name, value in pinned.items()):
        return _refused("parameter.refused", "the template has another value for a parameter")
    parameters = parameters_of({**asked, **pinned})
    if fault := parameter_fault(policy, parameters):
        return _refused("parameter.refused", fault)
    return ProfileChoice(profile, parameters)


def _refused(code: str, cause: str) -> ProfileChoice:
    return ProfileChoice(code=code, cause=cause)


def _names(text: str) -> frozenset[str]:
    """Read the profiles of a ceiling: names with commas between them."""
    return frozenset(name.strip() for name in text.split(","))


def _parameters(found: Annotations) -> dict[str, str]:
    return {
        key.removeprefix(PARAMETER_PREFIX): value for key, value in found if key.startswith(PARAMETER_PREFIX)
    }
