"""What known tools need to run in a sandbox that holds no key.

Each insists on a key before it says a word, so it gets a text that is none: the rules write the real one over
it, on the way. What a tool does beside its work (updates, statistics, lists of models) goes to hosts that the
rules do not name; it is switched off where there is a switch, so that nobody waits for a denial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from egress.errors import UsageError

NO_KEY: Final = "egress-no-key"
"""What a tool gets for a key."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A tool, and what is set for it."""

    name: str
    keys: tuple[str, ...]
    """Variables in which it looks for a key."""
    hosts: tuple[str, ...]
    """What the rules have to name, one of them at least."""
    presets: tuple[str, ...]
    """The ready rules for those."""
    quiet: Mapping[str, str]
    """Variables that keep it to its work."""

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
            # The second is the one that `codex exec` reads.
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
    """The tool of this name. Raises `UsageError`."""
    agent = AGENTS.get(name)
    if agent is None:
        raise UsageError(f"--agent: nothing is known of {name[:60]}", f"there are: {', '.join(AGENTS)}")
    return agent
