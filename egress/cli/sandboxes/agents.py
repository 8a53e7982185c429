"""Settings for known agents in a sandbox that holds no key.

Each agent refuses to start without some key, so it gets a dummy text: the proxy replaces it by the real key
on the way out. Side traffic of an agent (updates, statistics, lists of models) goes to hosts that the rules
do not name; it is switched off where possible, so that no start waits for a denial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from egress.errors import UsageError
from egress.rules.language.report import did_you_mean
from egress.runtime.environ import NO_KEY


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, and its settings."""

    name: str
    keys: tuple[str, ...]
    """Variables in which the agent looks for a key."""
    hosts: tuple[str, ...]
    """Hosts of the agent; the rules must name at least one."""
    presets: tuple[str, ...]
    """Presets for these hosts."""
    quiet: Mapping[str, str]
    """Variables that switch off side traffic."""

    @property
    def variables(self) -> dict[str, str]:
        return {**dict.fromkeys(self.keys, NO_KEY), **self.quiet}


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            keys=("ANTHROPIC_API_KEY",),
            hosts=("api.anthropic.com",),
            presets=("anthropic",),
            quiet={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
        ),
        Agent(
            "codex",
            # `codex exec` reads the second variable.
            keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
            hosts=("api.openai.com",),
            presets=("openai",),
            quiet={},
        ),
        Agent(
            "opencode",
            keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
            hosts=("api.anthropic.com", "api.openai.com"),
            presets=("anthropic", "openai"),
            quiet={
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_SHARE": "1",
            },
        ),
    )
}


def find_agent(name: str) -> Agent:
    """Return the agent of this name. Raises `UsageError`."""
    agent = AGENTS.get(name)
    if agent is None:
        raise UsageError(f"--agent: unknown agent `{name[:60]}`", did_you_mean(name, AGENTS))
    return agent
