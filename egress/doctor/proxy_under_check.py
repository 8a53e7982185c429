"""Settings, rules and environment of the proxy under check, as a proxy started here would get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.proxy.clock import Clock
from egress.proxy.settings import EffectiveSettings, Settings
from egress.rules.decide.policy import Policy
from egress.secrets import CapturedEnvironment

UNTIL_RULES: Final = "rules are found"

Answer = tuple[int, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class ProxyUnderCheck:
    """Everything the checks may use. No check looks for more by itself."""

    effective: EffectiveSettings
    policy: Policy | None
    """The rules of the proxy; None if it would not start with them."""
    # Kept out of the repr: no traceback may show the value of a secret.
    captured: CapturedEnvironment = field(repr=False)
    """The environment, with the values of `env:` secrets separated."""
    clock: Clock
    ask: Callable[[], Answer]
    """Asks the running proxy for its status; blocks, and raises `UnreadableError`."""
    replacing: tuple[str, ...] = ()
    """Variables that replace all trusted certificates of a program."""
    adding: tuple[str, ...] = ()
    """Variables that add to a program's trusted certificates."""
    until: str = UNTIL_RULES
    """Condition for checks of rules, used if there is no policy."""

    @property
    def values(self) -> Settings:
        return self.effective.values

    @property
    def environ(self) -> Mapping[str, str]:
        return self.captured.environ
