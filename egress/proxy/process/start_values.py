"""What a proxy is started with, and what its user is told once it serves. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from egress.policy.rule_source import RuleSource
from egress.policy.trust import TrustedFiles
from egress.proxy.settings import EffectiveSettings, ListenAddress
from egress.rules.decide.policy import Policy
from egress.types import Finding

if TYPE_CHECKING:
    # Loads what only a proxy that really starts needs.
    from egress.secrets import CapturedEnvironment, UnavailableSecret


def watched_files(chosen: RuleSource, trust: TrustedFiles) -> tuple[Path, ...]:
    """The files whose change means that the rules are to be read again."""
    # To be trusted again is what a changed file may be waiting for.
    return (*chosen.paths, trust.file) if chosen.needs_trust else chosen.paths


@dataclass(frozen=True, slots=True)
class StartValues:
    """What a proxy is started with."""

    effective: EffectiveSettings
    chosen: RuleSource
    trust: TrustedFiles
    policy: Policy
    captured: CapturedEnvironment
    findings: tuple[Finding, ...] = ()
    """What was found in the rules and does not keep them from being used."""
    seen: tuple[object, ...] | None = None
    """The fingerprint of the rule files, taken before they were read: a change since then is one."""


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """What a user needs to know once it serves."""

    addresses: tuple[ListenAddress, ...]
    control: Path
    placeholders: tuple[tuple[str, str], ...]
    """The stand-ins of the sandbox: secret and value."""
    transparent: tuple[ListenAddress, ...] = ()
    names: tuple[ListenAddress, ...] = ()
    handover: Path | None = None
    """Where listeners are handed over, if they may be."""
    lacking: tuple[UnavailableSecret, ...] = ()
    """The secrets that were asked for in vain by then."""
