"""Check that the rules have the profile of a sandbox.

A profile grants less than all rules, so an unknown name must never be ignored: at the start it is an error.
Later, rules that merely lack the name deny the sandbox everything; rules without any profiles would grant it
everything, and are refused.
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
    """Raise `UsageError` for a named profile that the rules lack."""
    if profile is None or profile in (policy.profiles or ()):
        return
    if policy.profiles is None:
        raise UsageError(
            f"--profile {profile}: these rules have no profiles, so the sandbox would get all rules",
            "add `profiles:` to the rules, or remove --profile",
        )
    known = ", ".join(sorted(policy.profiles)) or "none"
    meant = did_you_mean(profile, policy.profiles)
    hint = f"{meant} known profiles: {known}" if meant.startswith("did") else f"known profiles: {known}"
    raise UsageError(f"--profile {profile}: these rules have no such profile", hint)


def refuse_without_profiles(loaded: LoadResult, in_use: Iterable[str | None], name: str) -> LoadResult:
    """Return the result, without its policy if that would lift the profiles `in_use`.

    `name` is the rule file that the finding names.
    """
    # Profiles in use count, not those of the new rules: a reload must not widen a running sandbox.
    held = sorted({profile for profile in in_use if profile is not None})
    if loaded.policy is None or loaded.policy.profiles is not None or not held:
        return loaded
    finding = Finding(
        Place(name, 1, 1),
        Severity.ERROR,
        f"these rules have no profiles, but sandboxes run with {', '.join(held)}: they would get all rules",
        "restore `profiles:`, or start the proxy without --profile",
    )
    return replace(loaded, policy=None, findings=(*loaded.findings, finding))
