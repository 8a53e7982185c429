"""Every rule file shown in the documentation is one: it loads without a finding, and its tests pass."""

from __future__ import annotations

import pytest

from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.compile.rule_tests import run_rule_tests
from scripts.pages import PAGES, Block, blocks

NOW = 1_800_000_000
SHOWN = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]


def loaded(block: Block) -> LoadResult:
    return load([RuleText(block.file, block.text)], preset_texts(), NOW)


@pytest.mark.parametrize("block", [b for b in SHOWN if not b.is_wrong], ids=lambda block: block.place)
def test_a_shown_rule_file_is_without_findings_and_passes_its_tests(block: Block) -> None:
    result = loaded(block)
    assert result.findings == ()
    assert result.policy is not None
    failed = [f"{r.case.text}: {r.problem}" for r in run_rule_tests(result.policy, NOW) if r.problem]
    assert not failed


@pytest.mark.parametrize("block", [b for b in SHOWN if b.is_wrong], ids=lambda block: block.place)
def test_an_intended_mistake_is_one_and_the_next_block_shows_what_check_says(block: Block) -> None:
    """That the shown message is the real one is for test_console.py."""
    assert loaded(block).findings
    after = next((other for other in blocks(block.page) if other.line > block.line), None)
    assert after is not None
    assert after.language == "console"
    assert after.text.startswith("$ egress check")


def test_there_are_rule_files_of_both_kinds() -> None:
    """Otherwise the tests above could pass by finding none."""
    assert {block.is_wrong for block in SHOWN} == {True, False}
