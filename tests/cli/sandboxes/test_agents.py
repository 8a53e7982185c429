"""What known tools are given, and what they are not."""

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
    assert all(agent.variables[key] == NO_KEY for key in agent.keys)
    assert not looks_like_credential(NO_KEY)


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_set_can_be_set(name: str) -> None:
    for variable, value in AGENTS[name].variables.items():
        check_name(variable)
        check_value(variable, value)


@pytest.mark.parametrize("name", AGENTS)
def test_there_are_ready_rules_for_each(name: str) -> None:
    assert set(AGENTS[name].presets) <= set(preset_texts())


def test_another_one_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError) as caught:
        find_agent("clippy")
    assert "`claude-code`, `codex`, `opencode`" in caught.value.hint
