"""Small changes of the text of a rule file, in the style that is there."""

from __future__ import annotations

import pytest

from egress.review.drafting.rule_file_edit import RuleFileEdit, RuleFileText, apply_edit, new_section
from egress.rules.compile.load import RuleText
from egress.rules.compile.policy_writer import Json
from egress.rules.language.document import ValuePath

TEXT = """\
version: 1
hosts:  # all of them
    # about a
    a.example.com:
        # about ports
        ports: [443]   # here
        allow:
            - { id: one }
            - id: two
              paths: [/a,
                      /b]
    "b.example.com": { addresses: [10.0.0.0/8], allow: [{id: one}] }
    c.example.com: {}
    d.example.com: {methods: [GET]}  # the last

networks:
  - cidr: 10.0.0.0/8
    allow: []
  - {cidr: 192.0.2.0/24, allow: all}
profiles: {p: {hosts: [a.example.com]}, é: {hosts: [é.example]}}
"""
ITEM: Json = {"id": "new", "paths": ["/x"]}


def result(edit: RuleFileEdit | None, text: str = TEXT) -> str:
    assert edit is not None
    (changed,) = apply_edit([RuleText("h.yaml", text)], edit)
    return changed.text


def text_of(text: str = TEXT) -> RuleFileText:
    return RuleFileText(RuleText("h.yaml", text))


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ((), "version: 1\n", "new: 7\nversion: 1\n"),
        (("hosts",), "    # about a\n", "    new: 7\n    # about a\n"),
        (("hosts", "a.example.com"), "        # about ports\n", "        new: 7\n        # about ports\n"),
        (("hosts", "b.example.com"), "{ addresses", "{ new: 7, addresses"),
        (("hosts", "c.example.com"), "com: {}", "com: { new: 7 }"),
        (("hosts", "d.example.com"), "{methods", "{new: 7, methods"),
        (("networks", 0), "  - cidr: 10.0.0.0/8\n", "  - new: 7\n    cidr: 10.0.0.0/8\n"),
        (("networks", 1), "{cidr: 192", "{new: 7, cidr: 192"),
        (("profiles",), "{p:", "{new: 7, p:"),
        (("profiles", "é"), "é: {", "é: {new: 7, "),
    ],
)
def test_a_key_is_added_where_its_mapping_begins(path: ValuePath, before: str, after: str) -> None:
    assert TEXT.count(before) == 1
    assert result(text_of().add_key(path, "new", 7)) == TEXT.replace(before, after)


def test_a_list_of_mappings_gets_a_line_for_each() -> None:
    edit = text_of().add_key(("hosts", "a.example.com"), "deny", [ITEM, ITEM])
    assert edit is not None
    assert edit.lines == (
        "        deny:",
        "          - { id: new, paths: [/x] }",
        "          - { id: new, paths: [/x] }",
    )
    assert edit.where == "h.yaml, before line 5"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            ("hosts", "a.example.com", "allow"),
            "            - { id: one }\n",
            "            - { id: new, paths: [/x] }\n            - { id: one }\n",
        ),
        (("hosts", "b.example.com", "allow"), "[{id: one}]", "[{id: new, paths: [/x]}, {id: one}]"),
        (("networks", 0, "allow"), "allow: []", "allow: [{id: new, paths: [/x]}]"),
    ],
)
def test_an_item_is_added_where_its_list_begins(path: ValuePath, before: str, after: str) -> None:
    assert TEXT.count(before) == 1
    assert result(text_of().add_item(path, ITEM)) == TEXT.replace(before, after)


def test_a_word_is_replaced() -> None:
    text = "version: 1\nhosts:\n  a.example: {http: true, methods: [GET]} # true\n"
    edit = text_of(text).replace_word(("hosts", "a.example", "http"), "true", [80, 8080])
    assert result(edit, text) == text.replace("http: true", "http: [80, 8080]")
    assert text_of(text).replace_word(("hosts", "a.example", "methods"), "true", 1) is None


def test_an_entry_is_written_anew_without_what_follows_it() -> None:
    value: dict[str, Json] = {"allow": [{"id": "host"}, ITEM], "expires": "2030-01-01"}
    wide = text_of().rewrite(("hosts", "a.example.com"), value)
    assert wide is not None
    assert (wide.where, wide.replaced) == ("h.yaml, in place of lines 4 to 11", 8)
    assert wide.lines == (
        "    a.example.com:",
        "      allow:",
        "        - { id: host }",
        "        - { id: new, paths: [/x] }",
        '      expires: "2030-01-01"',
    )
    last = text_of().rewrite(("hosts", "d.example.com"), value)
    assert last is not None
    assert last.where == "h.yaml, in place of line 14"


@pytest.mark.parametrize(
    "path",
    [("profiles", "p"), ("nothing",), ("hosts", "x"), ("networks", 7), ("hosts", "a.example.com", "ports")],
)
def test_no_place_is_certain_in_the_middle_of_a_line_or_where_nothing_is(path: ValuePath) -> None:
    if path != ("profiles", "p"):
        assert text_of().add_key(path, "new", 1) is None
    assert text_of().add_item(("hosts", "a.example.com"), 1) is None
    if path == ("profiles", "p"):
        assert text_of().rewrite(path, {}) is None


def test_a_section_is_made_at_the_end_of_the_last_file() -> None:
    sources = [RuleText("a.yaml", "version: 1\n"), RuleText("b.yaml", "version: 1\r\n")]
    edit = new_section(sources, "hosts", {"b.example": {"allow": [ITEM]}})
    assert edit is not None
    assert edit.where == "b.yaml, at its end"
    assert apply_edit(sources, edit)[1].text == (
        "version: 1\n\nhosts:\n  b.example: { allow: [{id: new, paths: [/x]}] }\n"
    )
    listed = new_section(sources, "networks", [{"cidr": "10.0.0.0/8"}])
    assert listed is not None
    assert listed.lines == ("", "networks:", '  - { cidr: "10.0.0.0/8" }')
    assert new_section([], "hosts", {}) is None
