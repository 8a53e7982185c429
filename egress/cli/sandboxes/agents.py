"""Settings for known agents in a sandbox that holds no key.

Each agent refuses to start without some key, so it gets a dummy text: the proxy replaces it by the real key
on the way out. Side traffic of an agent (updates, statistics, lists of models) goes to hosts that the rules
do not name; it is switched off where possible, so that no start waits for a denial.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.errors import UsageError
from egress.rules.language.report import did_you_mean
from egress.runtime.environ import NO_KEY

IMAGE: Final = "egress-agents"
"""The image with all of them, which `egress image build agents` makes."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, and its settings."""

    name: str
    keys: Mapping[str, str]
    """Variables in which the agent looks for a key, with the preset that takes the real one from there."""
    shapes: Mapping[str, str] = field(default_factory=dict)
    """Dummy keys for variables where the agent checks the shape of its key."""
    quiet: Mapping[str, str] = field(default_factory=dict)
    """Variables that switch off side traffic, and questions that nobody in a sandbox answers."""

    @property
    def presets(self) -> tuple[str, ...]:
        """Presets for the hosts of the agent."""
        return tuple(dict.fromkeys(self.keys.values()))

    def variables(self, sources: Collection[str] = ()) -> dict[str, str]:
        """The variables to set, with `sources` as the variables from which the rules take secrets.

        An agent of several providers takes one whose key is there. So where the rules say which keys exist,
        it gets no other.
        """
        known = [name for name in self.keys if name in sources]
        return {name: self.shapes.get(name, NO_KEY) for name in known or self.keys} | dict(self.quiet)


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            keys={"ANTHROPIC_API_KEY": "anthropic"},
            # The first one alone leaves reports about its use on in some versions.
            quiet={
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_TELEMETRY": "1",
            },
        ),
        Agent(
            "codex",
            # Both are always set: `codex exec` reads the second variable.
            keys={"OPENAI_API_KEY": "openai"},
            quiet={"CODEX_API_KEY": NO_KEY},
        ),
        Agent(
            "copilot",
            keys={"COPILOT_GITHUB_TOKEN": "copilot"},
            shapes={"COPILOT_GITHUB_TOKEN": f"github_pat_{NO_KEY}"},
            quiet={"COPILOT_AUTO_UPDATE": "false"},
        ),
        Agent(
            "gemini-cli",
            keys={"GEMINI_API_KEY": "gemini"},
            # Without it the agent does nothing before somebody has said that the folder may be worked in.
            quiet={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ),
        Agent(
            "opencode",
            keys={"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "gemini"},
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
