"""Whose rules a proxy runs by, and reading them.

Rules come from whoever starts the proxy: named on the command line or in the environment, or put into
the user's own configuration. What merely lies in the working directory is used only where it is trusted
(`egress.policy.trust`), and what is checked is the very text that is loaded.

Rules that allow nothing are refused like rules with a mistake: a file that was just cut off, or is being
written, looks like that, and nobody starts a proxy to allow nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egress.errors import ContentError, UnreadableError
from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_file_reader import NotTextError, printable_path, read_text
from egress.policy.rule_files import find_rule_files
from egress.policy.trust import TrustedFiles
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Finding, Place, Severity

OWN_RULE_NAMES = ("hosts.yaml", "hosts.d")
"""What is looked for in the user's configuration: a file, or a folder of files."""


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Files and folders of rules, as they were named or found."""

    paths: tuple[Path, ...]
    needs_trust: bool = False
    """They were only found in the working directory."""

    @property
    def names(self) -> str:
        return ", ".join(printable_path(path) for path in self.paths)


def choose_rules(given: Sequence[Path], config: Path | None, cwd: Path) -> RuleSource:
    """Return the rules that were named, else the user's own in `config`, else what lies below `cwd`.

    Raises `UnreadableError` when there are none, `ContentError` when the user has two sets.
    """
    if given:
        return RuleSource(tuple(given))
    own = [config / name for name in OWN_RULE_NAMES if (config / name).exists()] if config is not None else []
    if len(own) > 1:
        raise ContentError(
            f"there are both {printable_path(own[0])} and {printable_path(own[1])}",
            "name what you mean with --rules: nothing is joined in silence",
        )
    if own:
        return RuleSource(tuple(own))
    try:
        return RuleSource(find_rule_files([], cwd), needs_trust=True)
    except UnreadableError as error:
        place = f", or in {printable_path(config)}" if config is not None else ""
        raise UnreadableError(f"{error.message}{place}", "name a file with --rules") from None


def read_rules(chosen: RuleSource, trust: TrustedFiles, now: int | None = None) -> LoadResult:
    """Read, check and compile the rules.

    Without a policy there is at least one finding that is an error. Raises `UnreadableError` for what
    cannot be read and `UntrustedError` for what needs trust and has none.
    """
    sources, findings = [], []
    for path in find_rule_files(chosen.paths, Path()):
        try:
            text = read_text(path)
        except NotTextError as error:
            findings.append(error.finding)
            continue
        if chosen.needs_trust:
            trust.check(path, text)
        sources.append(RuleText(printable_path(path), text))
    if findings:
        return LoadResult(None, tuple(findings))
    loaded = load(sources, preset_texts(), now)
    if loaded.policy is None or allows_something(loaded.policy):
        return loaded
    return LoadResult(None, (*loaded.findings, _empty(sources[0].name)))


def allows_something(policy: Policy) -> bool:
    """Whether there is anything at all that these rules could let through."""
    return bool(policy.entries or policy.networks) or policy.mode == "observe"


def _empty(name: str) -> Finding:
    return Finding(
        Place(name, 1, 1),
        Severity.ERROR,
        "these rules name no host, so they allow nothing",
        "name a host below `hosts:`; to allow nothing, stop the proxy",
    )
