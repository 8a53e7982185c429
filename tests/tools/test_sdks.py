"""SDKs of model providers, in the words of their own documentation: an answer as a whole, and a streamed one.

Nothing is set: the variable in which the SDK looks for a key is there already, with a dummy in it.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.proxy.clients.cache import Fetched
from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import HERE, NODE, PROGRAMS, PYTHON, PYTHON_PROGRAM, seen_at
from tests.tools.standins import anthropic_api, gemini_api, openai_api
from tests.tools.standins.script import SAID
from tests.tools.test_agents import ANTHROPIC, GEMINI, OPENAI, Setting
from tests.tools.tool import Tool, pinned

FAMILY: Final = "SDKs of model providers"
WHOLE: Final = "a whole answer"
STREAMED: Final = "a streamed answer"
PINS: Final = HERE / "requirements.lock"
PACKAGES: Final = PROGRAMS / "node/package.json"


def _python(package: str, name: str, preset: str) -> Tool:
    return Tool(f"{name}, Python", FAMILY, pinned(PINS, package), rules=f"`use: [{preset}]`")


def _node(package: str, name: str, preset: str) -> Tool:
    return Tool(f"{name}, TypeScript", FAMILY, pinned(PACKAGES, package), rules=f"`use: [{preset}]`")


ANTHROPIC_PYTHON = _python("anthropic", "Anthropic SDK", "anthropic")
ANTHROPIC_NODE = _node("@anthropic-ai/sdk", "Anthropic SDK", "anthropic")
OPENAI_PYTHON = _python("openai", "OpenAI SDK", "openai")
OPENAI_NODE = _node("openai", "OpenAI SDK", "openai")
GENAI_PYTHON = _python("google-genai", "Google GenAI SDK", "gemini")
GENAI_NODE = _node("@google/genai", "Google GenAI SDK", "gemini")


def answers(
    make_lab: LabMaker, setting: Setting, fetched: Fetched, program: str, host: str, count: int
) -> None:
    """The program prints so many answers, all of them whole, and every one was let in by the key."""
    lab = make_lab(setting.vendors, f"use: [{setting.preset}]", {setting.variable: setting.key}, fetched)
    folder = PROGRAMS / ("python" if fetched is PYTHON else "node")
    (lab.workspace / program).write_bytes((folder / program).read_bytes())
    if fetched is NODE:
        # Packages are looked for beside the program.
        (lab.workspace / "node_modules").symlink_to(f"{seen_at(NODE)}/node_modules")
    ran = lab.run("node" if fetched is NODE else PYTHON_PROGRAM, program)
    assert ran.status == 0, ran.said + lab.told()
    assert [line.strip() for line in ran.out.splitlines()] == [SAID] * count
    assert [call.status for call in lab.calls(host)] == [200] * count


@ANTHROPIC_PYTHON.proves(WHOLE, STREAMED)
@everywhere(smoke="docker")
@pytest.mark.timeout(900)
def test_the_sdk_of_anthropic_for_python(make_lab: LabMaker) -> None:
    answers(make_lab, ANTHROPIC, PYTHON, "anthropic_message.py", anthropic_api.HOST, 2)


@ANTHROPIC_NODE.proves(WHOLE, STREAMED)
@everywhere(smoke="namespace")
@pytest.mark.timeout(400)
def test_the_sdk_of_anthropic_for_typescript(make_lab: LabMaker) -> None:
    answers(make_lab, ANTHROPIC, NODE, "anthropic_message.mjs", anthropic_api.HOST, 2)


@OPENAI_PYTHON.proves(WHOLE, STREAMED)
@everywhere()
@pytest.mark.timeout(400)
def test_the_sdk_of_openai_for_python(make_lab: LabMaker) -> None:
    answers(make_lab, OPENAI, PYTHON, "openai_response.py", openai_api.HOST, 4)


@OPENAI_NODE.proves(WHOLE, STREAMED)
@everywhere()
@pytest.mark.timeout(400)
def test_the_sdk_of_openai_for_typescript(make_lab: LabMaker) -> None:
    answers(make_lab, OPENAI, NODE, "openai_response.mjs", openai_api.HOST, 4)


@GENAI_PYTHON.proves(WHOLE, STREAMED)
@everywhere()
@pytest.mark.timeout(400)
def test_the_sdk_of_google_for_python(make_lab: LabMaker) -> None:
    answers(make_lab, GEMINI, PYTHON, "genai_content.py", gemini_api.HOST, 2)


@GENAI_NODE.proves(WHOLE, STREAMED)
@everywhere()
@pytest.mark.timeout(400)
def test_the_sdk_of_google_for_typescript(make_lab: LabMaker) -> None:
    answers(make_lab, GEMINI, NODE, "genai_content.mjs", gemini_api.HOST, 2)
