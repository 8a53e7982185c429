"""Every link inside the documentation leads somewhere, and the lists in it are whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import PAGES, ROOT, name, prose, text

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
DECISIONS = ROOT / "docs/decisions"
SECURITY = ROOT / "docs/security.md"


def links(page: Path) -> Iterator[str]:
    return (target for target in LINK.findall(CODE.sub("", prose(page))) if "://" not in target)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made where it is shown."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def leads_nowhere(page: Path, target: str) -> bool:
    place, _, anchor = target.partition("#")
    file = (page.parent / place).resolve() if place else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return True
    return bool(anchor) and anchor not in anchors(file)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in links(page) if leads_nowhere(page, target)]
    assert not broken


def test_a_broken_link_would_be_noticed() -> None:
    readme = ROOT / "README.md"
    assert leads_nowhere(readme, "docs/nowhere.md")
    assert leads_nowhere(readme, "docs/reference/rule-file.md#nowhere")
    assert leads_nowhere(readme, "../elsewhere.md")
    assert not leads_nowhere(readme, "docs/reference/rule-file.md#host")


def test_every_page_is_linked_from_another_one() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in links(page)}
    unread = [name(page) for page in PAGES if page.name != "README.md" and page.resolve() not in linked]
    assert not unread


def test_every_decision_has_a_number_of_its_own_and_is_listed() -> None:
    """Numbers are given out ahead, to several pages that are written at a time: there may be gaps."""
    pages = sorted(page.name for page in DECISIONS.glob("*.md") if page.name != "README.md")
    numbers = [page[:5] for page in pages]
    assert all(re.fullmatch(r"[0-9]{4}-", number) for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert list(links(DECISIONS / "README.md")) == pages


def test_a_decision_says_why_what_and_then() -> None:
    for page in DECISIONS.glob("0*.md"):
        assert re.findall(r"^## (.+)$", text(page), re.MULTILINE) == ["Context", "Decision", "Consequence"]


def test_the_language_is_numbered_without_a_gap_but_one() -> None:
    page = ROOT / "docs/reference/language.md"
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", text(page), re.MULTILINE)]
    assert numbers == [number for number in range(1, 47) if number != 31]


def test_the_table_of_attacks_names_every_file_of_attacks() -> None:
    named = {(SECURITY.parent / target).resolve() for target in links(SECURITY)}
    missing = [name(file) for file in sorted((ROOT / "tests/attack").glob("test_*.py")) if file not in named]
    assert not missing, "add a row to docs/security.md"


def test_every_promise_names_the_tests_that_hold_it() -> None:
    """The words of such a link are the name of the test, and the page it leads to has a test of that name."""
    rows = re.findall(r"^\| \d+ \| .*$", text(SECURITY).partition("## Twelve promises")[2], re.MULTILINE)
    assert len(rows) == 12
    for row in rows:
        named = re.findall(r"\[([^\]]+)\]\(\.\./(tests/\S+\.py)\)", row.rpartition(" | ")[2])
        assert len(named) > 1, row
        for words, file in named:
            assert f"def test_{words.replace(' ', '_')}(" in text(ROOT / file), f"{words} in {file}"
