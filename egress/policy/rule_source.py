"""Choose the rules of a proxy, and read them.

Rules come from the user who starts the proxy: named on the command line or in the environment, or in the
user's own configuration. A file in the working directory is used only if it is trusted
(`egress.policy.trust`), and the text that is checked is the same text that is loaded.

Rules that allow nothing are refused like rules with a mistake: a truncated file, or a file being written,
looks like that, and a proxy that allows nothing has no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egress.errors import ContentError
from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_file_reader import NotTextError, printable_path, read_text
from egress.policy.rule_files import NoRulesError, find_rule_files
from egress.policy.trust import TrustedFiles
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Finding, Place, Severity

OWN_RULE_NAMES = ("hosts.yaml", "hosts.d")
"""Rules in the user's configuration: a file, or a folder of files."""


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Files and folders of rules, as named or found."""

    paths: tuple[Path, ...]
    needs_trust: bool = False
    """The files were only found in the working directory."""

    @property
    def names(self) -> str:
        return ", ".join(printable_path(path) for path in self.paths)


def choose_rules(given: Sequence[Path], config: Path | None, cwd: Path) -> RuleSource:
    """Return the named rules, else the user's own in `config`, else the rules below `cwd`.

    Raises `NoRulesError` if there are none, `UnreadableError` for a place that cannot be read, and
    `ContentError` if the user has two sets.
    """
    if given:
        return RuleSource(tuple(given))
    # The user's own rules come first: a hostile repository may bring a `hosts.yaml` of its own.
    own = [config / name for name in OWN_RULE_NAMES if (config / name).exists()] if config is not None else []
    # Joining both could weaken one of them without notice.
    if len(own) > 1:
        raise ContentError(
            f"both exist: {printable_path(own[0])} and {printable_path(own[1])}",
            "choose with --rules: they are never joined silently",
        )
    if own:
        return RuleSource(tuple(own))
    try:
        return RuleSource(find_rule_files([], cwd), needs_trust=True)
    except NoRulesError as error:
        place = f", nor rules in {printable_path(config)}" if config is not None else ""
        hint = "name a file with --rules, or create one with `egress init`"
        raise NoRulesError(f"{error.message}{place}", hint) from None


def read_rules(chosen: RuleSource, trust: TrustedFiles, now: int | None = None) -> LoadResult:
    """Read, check and compile the rules.

    Without a policy there is at least one error among the findings. Raises `UnreadableError` for an
    unreadable file and `UntrustedError` for a file that needs trust and lacks it.
    """
    sources, findings = [], []
    for path in find_rule_files(chosen.paths, Path()):
        try:
            text = read_text(path)
        except NotTextError as error:
            findings.append(error.finding)
            continue
        # The text just read is checked, not the file: it could be exchanged between check and use.
        if chosen.needs_trust:
            trust.check(path, text)
        sources.append(RuleText(printable_path(path), text))
    if findings:
        return LoadResult(None, tuple(findings))
    return compile_rules(sources, now)


def compile_rules(sources: Sequence[RuleText], now: int | None = None) -> LoadResult:
    """Check and compile the texts of rules, wherever they come from. `sources` has at least one."""
    loaded = load(sources, preset_texts(), now)
    # Rules without any host are nearly always an empty or wrong file, so the start fails loudly.
    if loaded.policy is None or allows_something(loaded.policy):
        return loaded
    return LoadResult(None, (*loaded.findings, _empty(sources[0].name)))


def allows_something(policy: Policy) -> bool:
    """Report whether these rules could allow any request at all."""
    return bool(policy.entries or policy.networks) or policy.mode == "observe"


def _empty(name: str) -> Finding:
    return Finding(
        Place(name, 1, 1),
        Severity.ERROR,
        "these rules contain no host, so they allow nothing",
        "add a host below `hosts:`; to block everything, stop the proxy",
    )
