"""What known tools are given, and what they are not. That they work with it is for tests/tools."""

from __future__ import annotations

import pytest

from egress.cli.sandboxes.agents import AGENTS, find_agent
from egress.errors import UsageError
from egress.policy.bundled_presets import preset_texts
from egress.rules.language.credential_guess import looks_like_credential
from egress.runtime.environ import NO_KEY, check_name, check_value


@pytest.mark.parametrize("name", AGENTS)
def test_each_gets_a_text_that_is_no_key_where_it_looks_for_one(name: str) -> None:
    agent = find_agent(name)
    for key in agent.keys:
        value = agent.variables()[key]
        assert NO_KEY in value
        assert not looks_like_credential(value)


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_set_can_be_set(name: str) -> None:
    for variable, value in AGENTS[name].variables().items():
        check_name(variable)
        check_value(variable, value)


@pytest.mark.parametrize("name", AGENTS)
def test_there_are_ready_rules_for_each_that_take_its_key_from_its_own_variable(name: str) -> None:
    texts = preset_texts()
    for variable, preset in AGENTS[name].keys.items():
        assert f"from: env:{variable}" in texts[preset]


def test_an_agent_of_several_providers_is_given_the_keys_that_the_rules_have() -> None:
    """It takes a provider whose key is there, and the rules may know another one alone."""
    agent = find_agent("opencode")
    found = agent.variables({"OPENAI_API_KEY", "GITHUB_TOKEN"})
    assert {name for name in found if name in agent.keys} == {"OPENAI_API_KEY"}
    # Rules that take keys from files do not say which there are.
    assert set(agent.keys) <= set(agent.variables({"GITHUB_TOKEN"}))


def test_reports_about_its_use_are_switched_off_where_there_is_a_switch() -> None:
    """Each would be denied, and counted in the summary of a task that went well."""
    found = find_agent("claude-code").variables()
    assert {"DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"} <= {
        name for name, value in found.items() if value == "1"
    }


def test_another_one_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError) as caught:
        find_agent("clippy")
    assert "`claude-code`, `codex`, `copilot`, `gemini-cli`, `opencode`" in caught.value.hint
