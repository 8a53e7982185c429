"""Edits find their place among several files, also after other edits."""

from __future__ import annotations

import pytest

from egress.review.drafting.placed_edits import item_edit, key_edit, listing_edit, word_edit, written_entry
from egress.review.drafting.rule_file_edit import apply_edit
from egress.rules.compile.load import RuleText, load
from egress.rules.language.document import Value

FIRST = RuleText(
    "a.yaml", "version: 1\nhosts:\n  A.example: { methods: [GET], paths: [/a], websocket: true }\n"
)
SECOND = RuleText(
    "b.yaml", "version: 1\nnetworks:\n  - {cidr: 10.0.0.0/8, allow: all}\nhosts: {b.example: {http: true}}\n"
)
SOURCES = [FIRST, SECOND]


def test_an_entry_is_found_by_its_host_or_its_network() -> None:
    policy = load(SOURCES, {}).policy
    assert policy is not None
    found = {entry.key: written_entry(SOURCES, entry)[0] for entry in policy.entries.values()}
    assert found == {"A.example": ("hosts", "A.example"), "b.example": ("hosts", "b.example")}
    path, own = written_entry(SOURCES, policy.networks[0].entry)
    assert (path, own) == (("networks", 0), {"cidr": "10.0.0.0/8", "allow": "all"})
    assert written_entry([FIRST], policy.networks[0].entry) == ((), None)


def test_an_edit_goes_to_the_file_that_holds_its_place() -> None:
    made = item_edit(("networks",), {"cidr": "192.0.2.0/24"})(SOURCES)
    assert made is not None
    assert made.file == "b.yaml"
    word = word_edit(("hosts", "b.example", "http"), "true", [80])(SOURCES)
    assert word is not None
    assert "http: [80]" in word.lines[0]
    key = key_edit(("hosts",), "c.example", {})(SOURCES)
    assert key is not None
    assert key.file == "a.yaml"


def test_a_section_that_no_file_has_is_made_and_a_part_of_none_is_not() -> None:
    made = key_edit(("profiles",), "p", {"hosts": ["A.example"]})(SOURCES)
    assert made is not None
    assert made.is_end
    assert key_edit(("profiles", "q"), "hosts", [])(SOURCES) is None
    assert item_edit(("profiles", "q", "hosts"), "x")(SOURCES) is None
    assert word_edit(("profiles", "q"), "true", 1)(SOURCES) is None


def test_predicates_on_an_entry_become_a_rule_that_means_the_same() -> None:
    own: dict[str, Value] = {"methods": ["GET"], "paths": ["/a"], "websocket": True, "expires": "2040-01-01"}
    made = listing_edit(("hosts", "A.example"), own, {"id": "new", "methods": ["PUT"]})(SOURCES)
    assert made is not None
    assert made.lines == (
        "  A.example:",
        "    allow:",
        "      - { id: host, methods: [GET], paths: [/a], websocket: true }",
        "      - { id: new, methods: [PUT] }",
        '    expires: "2040-01-01"',
    )
    assert load(apply_edit(SOURCES, made), {}).policy is not None


@pytest.mark.parametrize("key", ["allow", "methods"])
def test_a_key_of_the_list_itself_is_not_carried_over(key: str) -> None:
    made = listing_edit(("hosts", "A.example"), {key: "all" if key == "allow" else ["GET"]}, {"id": "new"})(
        SOURCES
    )
    assert made is not None
    assert sum(f"{key}:" in line for line in made.lines) == 1
