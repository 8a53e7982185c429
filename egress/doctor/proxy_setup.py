"""What is looked at: the settings, the rules and the surroundings, as a proxy started here has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.proxy.clock import Clock
from egress.proxy.settings import EffectiveSettings, Settings
from egress.rules.decide.policy import Policy
from egress.secrets import CapturedEnvironment

UNTIL_RULES: Final = "there are rules to go by"

Answer = tuple[int, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class ProxySetup:
    """All that the checks are given. None of them looks for more by itself."""

    effective: EffectiveSettings
    policy: Policy | None
    """The rules that a proxy would run by; None where it would not start with them."""
    captured: CapturedEnvironment = field(repr=False)
    """The environment, with the values of `env:` secrets apart from it."""
    clock: Clock
    ask: Callable[[], Answer]
    """Asks the running proxy for its status; blocks, and raises `UnreadableError`."""
    replacing: tuple[str, ...] = ()
    """Variables that name everything a program trusts."""
    adding: tuple[str, ...] = ()
    """Variables that add to what a program trusts."""
    until: str = UNTIL_RULES
    """What has to be done before anything can go by rules, where there is no policy."""

    @property
    def values(self) -> Settings:
        return self.effective.values

    @property
    def environ(self) -> Mapping[str, str]:
        return self.captured.environ
