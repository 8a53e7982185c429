"""Values that a proxy is started with, and the report for its user once it serves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from egress.proxy.process.rule_feed import RuleFeed
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import EffectiveSettings
from egress.rules.decide.policy import Policy
from egress.types import Finding

if TYPE_CHECKING:
    # Loads what only a proxy that really starts needs.
    from egress.secrets import CapturedEnvironment, UnavailableSecret


@dataclass(frozen=True, slots=True)
class StartValues:
    """The inputs of a proxy."""

    effective: EffectiveSettings
    rules: RuleFeed
    policy: Policy
    """The rules to start with; empty if they are still to come."""
    captured: CapturedEnvironment
    findings: tuple[Finding, ...] = ()
    """Findings in the rules that do not keep them from being used."""


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """Facts for the user once the proxy serves."""

    addresses: tuple[ListenAddress, ...]
    control: Path
    placeholders: tuple[tuple[str, str], ...]
    """The placeholders of the sandbox: secret and value."""
    transparent: tuple[ListenAddress, ...] = ()
    names: tuple[ListenAddress, ...] = ()
    handover: Path | None = None
    """The socket for handing over listeners; None if it is closed."""
    metrics: ListenAddress | None = None
    """Where the metrics are served for Prometheus."""
    lacking: tuple[UnavailableSecret, ...] = ()
    """The secrets that could not be resolved by then."""
