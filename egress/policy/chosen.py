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
from egress.policy.files import find_rule_files
from egress.policy.shipped import preset_texts
from egress.policy.text import NotTextError, read_text, shown
from egress.policy.trust import Trust
from egress.rules.load import Loaded, Source, load
from egress.rules.policy import Policy
from egress.types import Finding, Place, Severity

OWN = ("hosts.yaml", "hosts.d")
"""What is looked for in the user's configuration: a file, or a folder of files."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Files and folders of rules, as they were named or found."""

    paths: tuple[Path, ...]
    needs_trust: bool = False
    """They were only found in the working directory."""

    @property
    def names(self) -> str:
        return ", ".join(shown(path) for path in self.paths)


def choose(given: Sequence[Path], config: Path | None, cwd: Path) -> Chosen:
    """Return the rules that were named, else the user's own in `config`, else what lies below `cwd`.

    Raises `UnreadableError` when there are none, `ContentError` when the user has two sets.
    """
    if given:
        return Chosen(tuple(given))
    own = [config / name for name in OWN if (config / name).exists()] if config is not None else []
    if len(own) > 1:
        raise ContentError(
            f"there are both {shown(own[0])} and {shown(own[1])}",
            "name what you mean with --rules: nothing is joined in silence",
        )
    if own:
        return Chosen(tuple(own))
    try:
        return Chosen(find_rule_files([], cwd), needs_trust=True)
    except UnreadableError as error:
        place = f", or in {shown(config)}" if config is not None else ""
        raise UnreadableError(f"{error.message}{place}", "name a file with --rules") from None


def read_chosen(chosen: Chosen, trust: Trust, now: int | None = None) -> Loaded:
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
        sources.append(Source(shown(path), text))
    if findings:
        return Loaded(None, tuple(findings))
    loaded = load(sources, preset_texts(), now)
    if loaded.policy is None or allows_something(loaded.policy):
        return loaded
    return Loaded(None, (*loaded.findings, _empty(sources[0].name)))


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
