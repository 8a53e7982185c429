"""Coding agents finish their first task: a tool of the agent writes a file, and the answer is streamed.

Each runs as `egress run --agent NAME` starts it, with nothing else set, and holds no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from tests.proxy.clients.cache import Fetched
from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import AGENT_PINS, AGENTS, CLAUDE
from tests.tools.standins import anthropic_api, copilot_api, gemini_api, openai_api
from tests.tools.standins.anthropic_api import AnthropicApi
from tests.tools.standins.copilot_api import CopilotAccount, CopilotModels
from tests.tools.standins.gemini_api import GeminiApi
from tests.tools.standins.openai_api import OpenAiApi
from tests.tools.standins.script import SAID, WRITTEN
from tests.tools.tool import Tool, pinned
from tests.tools.tool_lab import ToolLab
from tests.tools.vendor_server import Vendor

FAMILY: Final = "Coding agents"
TASK: Final = "a task: asks, has a file written, answers"
PACKAGES: Final = AGENT_PINS / "package.json"
ASKED: Final = "Write the file."

CLAUDE_CODE = Tool(
    "Claude Code",
    FAMILY,
    pinned(PACKAGES, "@anthropic-ai/claude-code"),
    rules="`use: [anthropic]`",
    agent="claude-code",
)
CODEX = Tool("Codex", FAMILY, pinned(PACKAGES, "@openai/codex"), rules="`use: [openai]`", agent="codex")
OPENCODE = Tool(
    "opencode",
    FAMILY,
    pinned(PACKAGES, "opencode-ai"),
    rules="`use: [anthropic]` or `[openai]`",
    agent="opencode",
)
GEMINI_CLI = Tool(
    "Gemini CLI", FAMILY, pinned(PACKAGES, "@google/gemini-cli"), rules="`use: [gemini]`", agent="gemini-cli"
)
COPILOT_CLI = Tool(
    "GitHub Copilot CLI",
    FAMILY,
    pinned(PACKAGES, "@github/copilot"),
    rules="`use: [copilot]`",
    agent="copilot",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an agent needs around it: its vendor, and the preset with the key."""

    preset: str
    variable: str
    key: str
    vendors: Mapping[str, Vendor]

    def lab(self, make_lab: LabMaker, fetched: Fetched = AGENTS) -> ToolLab:
        rules = f"use: [{self.preset}]"
        return make_lab(self.vendors, rules, {self.variable: self.key}, fetched, path=["bin"])


ANTHROPIC_KEY: Final = "sk-ant-real-0123456789abcdef0123456789"
OPENAI_KEY: Final = "sk-real-0123456789abcdef0123456789"
GEMINI_KEY: Final = "AIza-real-0123456789abcdef0123456789"
GITHUB_TOKEN: Final = "github_pat_real0123456789abcdef0123456789"

ANTHROPIC: Final = Setting(
    "anthropic", "ANTHROPIC_API_KEY", ANTHROPIC_KEY, {anthropic_api.HOST: AnthropicApi(ANTHROPIC_KEY)}
)
OPENAI: Final = Setting("openai", "OPENAI_API_KEY", OPENAI_KEY, {openai_api.HOST: OpenAiApi(OPENAI_KEY)})
GEMINI: Final = Setting("gemini", "GEMINI_API_KEY", GEMINI_KEY, {gemini_api.HOST: GeminiApi(GEMINI_KEY)})
COPILOT: Final = Setting(
    "copilot",
    "COPILOT_GITHUB_TOKEN",
    GITHUB_TOKEN,
    {copilot_api.GITHUB: CopilotAccount(GITHUB_TOKEN), copilot_api.MODELS: CopilotModels(GITHUB_TOKEN)},
)


def finishes(lab: ToolLab, tool: Tool, *command: str, host: str, path: str, calls: int = 2) -> None:
    """The agent asks, does what it is told, reports it, and says the last line."""
    ran = lab.run(*command, agent=tool.agent)
    assert ran.status == 0, ran.said + lab.told()
    # Some show the line as it comes, broken where the terminal ends.
    assert SAID.split() == [word for word in ran.out.split() if word in SAID.split()][-len(SAID.split()) :], (
        ran
    )
    assert lab.written("proof.txt") == WRITTEN
    found = lab.calls(host, path)
    assert len(found) >= calls, lab.told()
    assert {call.status for call in found} == {200}, lab.told()


@CLAUDE_CODE.proves(TASK)
@everywhere(smoke="namespace")
@pytest.mark.timeout(400)
def test_claude_code_finishes_a_task(make_lab: LabMaker) -> None:
    command = ("claude", "--dangerously-skip-permissions", "-p", ASKED)
    lab = ANTHROPIC.lab(make_lab, CLAUDE)
    finishes(lab, CLAUDE_CODE, *command, host=anthropic_api.HOST, path="/v1/messages")


@CODEX.proves(TASK)
@everywhere()
@pytest.mark.timeout(400)
def test_codex_finishes_a_task(make_lab: LabMaker) -> None:
    command = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ASKED)
    lab = OPENAI.lab(make_lab)
    finishes(lab, CODEX, *command, host=openai_api.HOST, path="/v1/responses")
    # It tries a WebSocket first, and takes the one refusal for an answer.
    refused = [line for line in lab.record() if line["code"] == "rule.websocket"]
    assert [line["path"] for line in refused] == ["/v1/responses"], lab.record()


@OPENCODE.proves(TASK)
@everywhere()
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("setting", "host", "path"),
    [(ANTHROPIC, anthropic_api.HOST, "/v1/messages"), (OPENAI, openai_api.HOST, "/v1/responses")],
    ids=["anthropic", "openai"],
)
def test_opencode_finishes_a_task(make_lab: LabMaker, setting: Setting, host: str, path: str) -> None:
    model = "anthropic/claude-sonnet-4-5" if setting is ANTHROPIC else "openai/gpt-5"
    command = ("opencode", "run", "--model", model, ASKED)
    finishes(setting.lab(make_lab), OPENCODE, *command, host=host, path=path)


@GEMINI_CLI.proves(TASK)
@everywhere()
@pytest.mark.timeout(400)
def test_gemini_cli_finishes_a_task(make_lab: LabMaker) -> None:
    path = r"/v1beta/models/[\w.-]+:streamGenerateContent"
    command = ("gemini", "--yolo", "-p", ASKED)
    finishes(GEMINI.lab(make_lab), GEMINI_CLI, *command, host=gemini_api.HOST, path=path)


@COPILOT_CLI.proves(TASK)
@everywhere()
@pytest.mark.timeout(400)
def test_copilot_cli_finishes_a_task(make_lab: LabMaker) -> None:
    command = ("copilot", "--allow-all-tools", "-p", ASKED)
    finishes(COPILOT.lab(make_lab), COPILOT_CLI, *command, host=copilot_api.MODELS, path="/chat/completions")
