"""An agent whose user has no rules gets those of its provider; rules that exist are never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.cli.sandboxes.agent_rules import rules_for
from egress.cli.sandboxes.agents import AGENTS, find_agent
from egress.errors import UnreadableError
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from tests.cli.command import put

CLAUDE = find_agent("claude-code")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user without rules, in an empty working folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return {"HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("name", AGENTS)
def test_without_rules_the_preset_is_written_down(name: str, environ: dict[str, str]) -> None:
    (path,) = rules_for(find_agent(name), (), environ)
    found = load([RuleText(path.name, path.read_text("utf-8"))], preset_texts(), 1_800_000_000)
    assert found.findings == ()
    assert found.policy is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_several_providers_those_are_taken_whose_key_is_there(environ: dict[str, str]) -> None:
    (path,) = rules_for(find_agent("opencode"), (), {**environ, "OPENAI_API_KEY": "a-key"})
    assert "use: [openai]" in path.read_text("utf-8")
    (path,) = rules_for(find_agent("opencode"), (), environ)
    assert "use: [anthropic, openai, gemini]" in path.read_text("utf-8")


def test_what_was_edited_stays(environ: dict[str, str]) -> None:
    (path,) = rules_for(CLAUDE, (), environ)
    path.write_text("version: 1\nuse: [anthropic, github]\n", "utf-8")
    assert rules_for(CLAUDE, (), environ) == (path,)
    assert "github" in path.read_text("utf-8")


def test_rules_that_are_named_are_the_rules(environ: dict[str, str]) -> None:
    assert rules_for(CLAUDE, (Path("mine.yaml"),), environ) == (Path("mine.yaml"),)
    assert rules_for(CLAUDE, (), {**environ, "EGRESS_RULES": "mine.yaml"}) == ()
    assert not (Path(environ["HOME"]) / ".local").exists()


@pytest.mark.parametrize("place", ["home/.config/egress/hosts.yaml", "work/hosts.yaml"])
def test_rules_that_are_found_are_the_rules(place: str, environ: dict[str, str], tmp_path: Path) -> None:
    """Those of the working folder too, which may want trust: that is for the proxy to say."""
    put(tmp_path / place, "version: 1\n")
    assert rules_for(CLAUDE, (), environ) == ()


def test_rules_that_cannot_be_looked_at_are_not_passed_over(environ: dict[str, str], tmp_path: Path) -> None:
    """A file that denies may be among them; it is no place for other rules."""
    (tmp_path / "work/config").symlink_to("config")
    with pytest.raises(OSError, match=r"loop|many levels"):
        os.stat("config")  # noqa: PTH116 - it cannot be looked at, which is the point
    assert rules_for(CLAUDE, (), environ) == ()


def test_a_place_where_nothing_can_be_written_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path / "home/.local/state/egress/agents", "a file")
    with pytest.raises(UnreadableError, match=r"agents/anthropic\.yaml cannot be written"):
        rules_for(CLAUDE, (), environ)
