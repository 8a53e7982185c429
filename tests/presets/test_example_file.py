"""config/hosts.yaml, the first file a newcomer reads: it works, and so does what it only hints at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_files import load_policy
from egress.rules.compile import rule_tests
from egress.rules.compile.load import LoadResult, RuleText, load
from tests.presets.preset_samples import NOW, ask

FILE = Path(__file__).parents[2] / "config/hosts.yaml"
TEXT = FILE.read_text(encoding="utf-8")
# A commented line that is YAML, not a sentence: `# key: {...}`, `# - {...}`, `# key: word`.
OFF = re.compile(r'^( *)# ((?:- )?[\w."*-]+: (?:\{.*|observe))$', re.MULTILINE)
PRESET_IN_PLACE = "- github: "


def loaded(text: str) -> LoadResult:
    return load([RuleText("hosts.yaml", text)], preset_texts(), NOW)


def without_the_hand_written_github(text: str) -> str:
    """The file without its `github` secret and its api.github.com entry, as its comment advises."""
    text = re.sub(r"(?m)^  github:\n(?:    .*\n)+", "", text)
    return re.sub(r"(?m)^  api\.github\.com:\n(?:    .*\n)+", "", text)


def test_it_loads_without_a_finding() -> None:
    assert [str(finding) for finding in load_policy([FILE], NOW).findings] == []


def test_its_own_tests_pass() -> None:
    rules = load_policy([FILE], NOW).policy
    assert rules is not None
    results = list(rule_tests.run_rule_tests(rules, NOW))
    assert len(results) >= 6
    assert [f"{result.case.text}: {result.problem}" for result in results if result.problem] == []


def test_its_first_line_gives_editors_the_schema() -> None:
    assert TEXT.startswith("# yaml-language-server: $schema=./hosts.schema.json\n")


def test_it_fits_on_a_screen_or_two() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 90
    assert max(len(line) for line in lines) <= 110


def test_it_shows_every_section() -> None:
    rules = load_policy([FILE], NOW).policy
    assert rules is not None
    entries = rules.entries.values()
    assert any(entry.is_whole for entry in entries)
    assert any(not entry.intercept for entry in entries)
    assert any(entry.pattern is not None and entry.pattern.stars for entry in entries)
    assert any(rule.handling.limit for entry in entries for rule in entry.allow)
    assert any(rule.ref.id.startswith("python-index-") for entry in entries for rule in entry.allow)
    assert {type(item.injection).__name__ for entry in entries for item in entry.inject} >= {
        "InjectHeader",
        "InjectPlaceholder",
    }
    assert rules.deny
    assert rules.limit is not None


def test_its_commented_lines_are_found() -> None:
    assert len(OFF.findall(TEXT)) == 5


@pytest.mark.parametrize("line", [match[2] for match in OFF.finditer(TEXT)])
def test_a_commented_line_works_when_it_is_switched_on(line: str) -> None:
    text = TEXT if not line.startswith(PRESET_IN_PLACE) else without_the_hand_written_github(TEXT)
    switched_on = OFF.sub(lambda match: match[1] + match[2] if match[2] == line else match[0], text)
    assert switched_on != text
    result = loaded(switched_on)
    assert result.policy is not None
    assert [str(finding) for finding in result.findings] == []


def test_the_github_preset_beside_the_hand_written_entry_is_a_clear_error() -> None:
    """Why the comment says `instead of`: two credentials would meet in one header."""
    switched_on = OFF.sub(
        lambda match: match[1] + match[2] if match[2].startswith(PRESET_IN_PLACE) else match[0], TEXT
    )
    assert any("two credentials can meet" in finding.message for finding in loaded(switched_on).findings)


def test_its_top_level_deny_holds_over_an_open_host() -> None:
    rules = load_policy([FILE], NOW).policy
    assert rules is not None
    assert ask(rules, "POST https://docs.example.com/upload").allowed
    form = {"content-type": "multipart/form-data; boundary=x"}
    assert ask(rules, "POST https://docs.example.com/upload", form).code == "rule.denied"
