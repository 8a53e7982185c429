"""Lines put into the text of a rule file, at places that are certain."""

from __future__ import annotations

from egress.review.drafting.rule_file_edit import RuleFileEdit, apply_edit, before_item, below_section
from egress.rules.compile.load import RuleText

TEXT = "version: 1\n\nhosts:  # all of them\n    a.example.com: {}\n"


def result(edit: RuleFileEdit | None, *sources: RuleText) -> str:
    assert edit is not None
    return "".join(source.text for source in apply_edit(sources, edit))


def test_below_a_section_with_the_indent_that_is_there() -> None:
    source = RuleText("h.yaml", TEXT)
    edit = below_section([source], "hosts", ["b.example.com: {}"])
    assert result(edit, source) == TEXT.replace("    a.ex", "    b.example.com: {}\n    a.ex")


def test_a_section_that_is_not_there_is_made_at_the_end() -> None:
    source = RuleText("h.yaml", "version: 1\n")
    assert result(below_section([source], "hosts", ["b: {}"]), source) == "version: 1\n\nhosts:\n  b: {}\n"


def test_a_section_in_braces_is_left_to_a_person() -> None:
    assert (
        below_section([RuleText("h.yaml", "version: 1\nhosts: {a.example.com: {}}\n")], "hosts", ["b: {}"])
        is None
    )
    assert below_section([], "hosts", ["b: {}"]) is None


def test_an_item_goes_before_one_of_a_block_list() -> None:
    source = RuleText("h.yaml", "allow:\r\n  - { id: a }\r\n")
    edit = before_item([source], "h.yaml", 2, "{ id: b }")
    assert result(edit, source) == "allow:\n  - { id: b }\n  - { id: a }\n"


def test_no_item_begins_where_the_list_is_in_brackets() -> None:
    source = RuleText("h.yaml", "allow: [{ id: a }]\n")
    assert before_item([source], "h.yaml", 1, "{ id: b }") is None
    assert before_item([source], "h.yaml", 9, "{ id: b }") is None
    assert before_item([source], "other.yaml", 1, "{ id: b }") is None
