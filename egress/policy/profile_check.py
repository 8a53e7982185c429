"""Whether the rules know the profile that a sandbox is to have.

A profile is there to give less than everything. So a name that the rules do not know must not end in
silence: at the start it is an error. Later, rules that merely lack the name deny the sandbox everything;
rules that have no profiles at all would give it everything, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from egress.errors import UsageError
from egress.rules.compile.load import LoadResult
from egress.rules.decide.policy import Policy
from egress.rules.language.report import did_you_mean
from egress.types import Finding, Place, Severity


def check_profile(policy: Policy, profile: str | None) -> None:
    """Raise `UsageError` for a profile that was named and that the rules do not have."""
    if profile is None or profile in (policy.profiles or ()):
        return
    if policy.profiles is None:
        raise UsageError(
            f"--profile {profile}: these rules have no profiles, so it would get all of them",
            "write `profiles:` into the rules, or leave --profile out",
        )
    known = ", ".join(sorted(policy.profiles)) or "none"
    meant = did_you_mean(profile, policy.profiles)
    hint = f"{meant} there are: {known}" if meant.startswith("did") else f"there are: {known}"
    raise UsageError(f"--profile {profile}: these rules have no such profile", hint)


def refuse_without_profiles(loaded: LoadResult, in_use: Iterable[str | None], name: str) -> LoadResult:
    """Return what was loaded, without its policy if that would lift the profiles that are `in_use`.

    `name` is that of a rule file, for the finding.
    """
    held = sorted({profile for profile in in_use if profile is not None})
    if loaded.policy is None or loaded.policy.profiles is not None or not held:
        return loaded
    finding = Finding(
        Place(name, 1, 1),
        Severity.ERROR,
        f"these rules have no profiles, and sandboxes run with {', '.join(held)}: they would get everything",
        "write `profiles:` back, or start the proxy without --profile",
    )
    return replace(loaded, policy=None, findings=(*loaded.findings, finding))
