"""Check the rules: which are used and why, whether they are trusted, and all their mistakes.

Rules are chosen and read like in `egress serve`. Untrusted rules are checked but not used any further: they
could name commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, Level, counted, fault, from_error, ok
from egress.doctor.file_modes import may_write
from egress.doctor.proxy_under_check import UNTIL_RULES
from egress.errors import EgressError, reason_of
from egress.policy.profile_check import check_profile
from egress.policy.rule_file_reader import printable_path
from egress.policy.rule_files import find_rule_files, load_policy
from egress.policy.rule_source import RuleSource, choose_rules, read_rules
from egress.policy.trust import TrustedFiles, UntrustedError
from egress.proxy.settings import EffectiveSettings
from egress.rules.compile.load import LoadResult
from egress.rules.decide.policy import Policy
from egress.types import Finding, Severity

MAX_SHOWN_FINDINGS: Final = 5
"""Findings reported per severity; `egress check` lists all."""
UNTIL_CORRECTED: Final = "the errors above are fixed"
UNTIL_TRUSTED: Final = "the rules are trusted"


@dataclass(frozen=True, slots=True)
class RulesReport:
    """The rules a proxy would use, and the diagnoses about them."""

    policy: Policy | None
    diagnoses: tuple[Diagnosis, ...]
    until: str = UNTIL_RULES
    """Condition for having a policy, used if there is none."""


def read(effective: EffectiveSettings, config: Path, now: int) -> RulesReport:
    """Find, read and check the rules; raises nothing for mistakes in them."""
    values = effective.values
    try:
        chosen = choose_rules(values.rules, config, Path())
        files = find_rule_files(chosen.paths, Path())
    except EgressError as error:
        return RulesReport(None, (from_error("rules", error),))
    except OSError as error:
        reason = reason_of(error)
        cure = "check the permissions of its folders, or name a file with `--rules`"
        return RulesReport(
            None, (fault("rules", f"{printable_path(config)} cannot be inspected: {reason}", cure),)
        )
    # The modes matter even if the content is fine at present, or cannot be read.
    found = list(_modes(files))
    try:
        loaded = read_rules(chosen, TrustedFiles(values.state_dir), now)
    except EgressError as error:
        until = UNTIL_TRUSTED if isinstance(error, UntrustedError) else UNTIL_CORRECTED
        return RulesReport(
            None, (from_error(chosen.names, error), *_of_untrusted(files, error, now), *found), until
        )
    found += _findings(chosen, loaded)
    if loaded.policy is None:
        return RulesReport(None, tuple(found), UNTIL_CORRECTED)
    try:
        # An unknown profile stops the start, so further checks would judge rules that never run.
        check_profile(loaded.policy, values.profile)
    except EgressError as error:
        return RulesReport(None, (*found, from_error("profile", error)), UNTIL_CORRECTED)
    why = {"flag": "named by --rules", "environment": "named by EGRESS_RULES"}.get(effective.origins["rules"])
    why = why or ("found here and trusted" if chosen.needs_trust else "your own")
    return RulesReport(loaded.policy, (ok(chosen.names, f"{why}: {_summary(loaded.policy)}"), *found))


def _of_untrusted(files: tuple[Path, ...], error: EgressError, now: int) -> Iterator[Diagnosis]:
    if isinstance(error, UntrustedError):
        # A file that cannot be read is reported already.
        yield from _findings(RuleSource(files), load_policy(files, now))


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


def _findings(chosen: RuleSource, loaded: LoadResult) -> Iterator[Diagnosis]:
    # Errors first, each severity with its own limit, so that warnings cannot push errors out.
    for severity, level in ((Severity.ERROR, Level.FAULT), (Severity.WARNING, Level.WARNING)):
        found = [finding for finding in loaded.findings if finding.severity is severity]
        yield from (_finding(finding, level) for finding in found[:MAX_SHOWN_FINDINGS])
        if len(found) > MAX_SHOWN_FINDINGS:
            kind = "errors" if severity is Severity.ERROR else "warnings"
            files = " ".join(printable_path(path) for path in chosen.paths)
            fact = f"{len(found) - MAX_SHOWN_FINDINGS} more {kind}"
            yield Diagnosis(chosen.names, level, fact, f"`egress check {files}` lists them all")


def _finding(finding: Finding, level: Level) -> Diagnosis:
    cure = finding.hint or f"see line {finding.place.line}"
    return Diagnosis(str(finding.place), level, finding.message, cure)


def _modes(files: tuple[Path, ...]) -> Iterator[Diagnosis]:
    """Report rule files that other users can write: they could redirect credentials."""
    # Folders count, too: a writable folder lets any user replace the file in it.
    for path in dict.fromkeys([*files, *(file.parent for file in files)]):
        name = printable_path(path.absolute())
        # A file that cannot be inspected is reported by the reader.
        with suppress(OSError):
            if may_write(path):
                yield fault(
                    printable_path(path),
                    f"{name} is writable by every user, who can then redirect credentials",
                    f"inspect the rules, then `chmod o-w {shlex.quote(name)}`",
                )
