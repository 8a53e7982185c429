"""The rules: which would be used and why those, whether they are trusted, and every mistake in them.

They are chosen and read as `egress serve` does. Rules that are not trusted are checked, because any file may
be, and nothing further is done with them: they could name commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, Level, counted, fault, ok, told
from egress.doctor.others import may_write
from egress.doctor.patient import RULELESS
from egress.errors import EgressError
from egress.policy.chosen import Chosen, choose, read_chosen
from egress.policy.files import find_rule_files, load_policy
from egress.policy.profiles import check_profile
from egress.policy.text import shown
from egress.policy.trust import Trust, UntrustedError
from egress.proxy.settings import Effective
from egress.rules.load import Loaded
from egress.rules.policy import Policy
from egress.types import Finding, Severity

MOST: Final = 5
"""Findings of one kind that are told; `egress check` has them all."""
CORRECTED: Final = "the mistakes above are put right"
TRUSTED: Final = "the rules are trusted"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a proxy would run by, and what is to be said about it."""

    policy: Policy | None
    diagnoses: tuple[Diagnosis, ...]
    until: str = RULELESS
    """What has to be done before there is a policy, where there is none."""


def read(effective: Effective, config: Path, now: int) -> Rules:
    """Find, read and check the rules; raises nothing for what is wrong with them."""
    values = effective.values
    try:
        chosen = choose(values.rules, config, Path())
        files = find_rule_files(chosen.paths, Path())
    except EgressError as error:
        return Rules(None, (told("rules", error),))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        cure = "check who may enter its folders, or name a file with `--rules`"
        return Rules(None, (fault("rules", f"{shown(config)} cannot be looked at: {reason}", cure),))
    # Who may write them decides, whatever stands in them just now.
    found = list(_modes(files))
    try:
        loaded = read_chosen(chosen, Trust(values.state_dir), now)
    except EgressError as error:
        until = TRUSTED if isinstance(error, UntrustedError) else CORRECTED
        return Rules(None, (told(chosen.names, error), *_of_untrusted(files, error, now), *found), until)
    found += _findings(chosen, loaded)
    if loaded.policy is None:
        return Rules(None, tuple(found), CORRECTED)
    try:
        check_profile(loaded.policy, values.profile)
    except EgressError as error:
        return Rules(None, (*found, told("profile", error)), CORRECTED)
    why = {"flag": "named by --rules", "environment": "named by EGRESS_RULES"}.get(effective.origins["rules"])
    why = why or ("found here, and trusted" if chosen.needs_trust else "your own")
    return Rules(loaded.policy, (ok(chosen.names, f"{why}: {_summary(loaded.policy)}"), *found))


def _of_untrusted(files: tuple[Path, ...], error: EgressError, now: int) -> Iterator[Diagnosis]:
    if isinstance(error, UntrustedError):
        # One that cannot be read has been told already.
        yield from _findings(Chosen(files), load_policy(files, now))


def _summary(policy: Policy) -> str:
    counts = [
        counted(number, noun)
        for number, noun in (
            (len(policy.entries), "host"),
            (len(policy.networks), "network"),
            (len(policy.secrets), "secret"),
        )
        if number
    ]
    return ", ".join([*counts, f"mode {policy.mode}"])


def _findings(chosen: Chosen, loaded: Loaded) -> Iterator[Diagnosis]:
    for severity, level in ((Severity.ERROR, Level.FAULT), (Severity.WARNING, Level.WARNING)):
        found = [finding for finding in loaded.findings if finding.severity is severity]
        yield from (_finding(finding, level) for finding in found[:MOST])
        if len(found) > MOST:
            kind = "errors" if severity is Severity.ERROR else "warnings"
            files = " ".join(shown(path) for path in chosen.paths)
            fact = f"{len(found) - MOST} more {kind}"
            yield Diagnosis(chosen.names, level, fact, f"`egress check {files}` lists them all")


def _finding(finding: Finding, level: Level) -> Diagnosis:
    cure = finding.hint or f"see line {finding.place.line}"
    return Diagnosis(str(finding.place), level, finding.message, cure)


def _modes(files: tuple[Path, ...]) -> Iterator[Diagnosis]:
    """Whoever can write the rules decides where credentials go."""
    for path in dict.fromkeys([*files, *(file.parent for file in files)]):
        name = shown(path.absolute())
        # What cannot be looked at is told where it is read.
        with suppress(OSError):
            if may_write(path):
                yield fault(
                    shown(path),
                    f"{name} can be written by every user, who can then send credentials anywhere",
                    f"look into the rules, then `chmod o-w {shlex.quote(name)}`",
                )
