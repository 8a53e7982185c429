"""The glossary has 60 to 90 words in order, each once, each in use, and each shown where it says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.pages import PAGES, ROOT, text

PAGE = ROOT / "docs/glossary.md"
PATH = re.compile(r"`((?:egress|scripts|tests)(?:/[\w./-]*)?)`")
OPTION = re.compile(r"`(?:--[\w-]+|EGRESS_\w+)`")


def rows(page: str) -> list[list[str]]:
    """The cells of the table, without its head."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line][1:]


def faults(table: list[list[str]]) -> list[str]:
    """Everything that is wrong with the form of a glossary."""
    words = [row[0] for row in table]
    found = [
        f"{row[0]}: {len(row)} cells, one of them empty" for row in table if len(row) != 4 or not all(row)
    ]
    found += [f"{word}: stands twice" for word in {word for word in words if words.count(word) > 1}]
    found += [f"{two}: comes before {one}" for one, two in pairwise(words) if two < one]
    for word, meaning, _, others in (row for row in table if len(row) == 4):
        if word in others.split(", "):
            found.append(f"{word}: cannot replace itself")
        if len(re.findall(r"\.(?= |$)", meaning)) not in {1, 2}:
            found.append(f"{word}: one or two sentences")
    return found


def is_used(word: str, where: Iterable[str]) -> bool:
    """In a text or in a name, in any spelling: `init process`, `init_process`, `InitProcess`."""
    spelled = re.compile(r"[ _-]?".join(map(re.escape, word.split())), re.IGNORECASE)
    return any(spelled.search(text) for text in where)


TABLE = rows(text(PAGE))


def test_it_is_in_form_and_has_60_to_90_words() -> None:
    assert faults(TABLE) == []
    assert 60 <= len(TABLE) <= 90


def test_every_word_is_used_in_code_or_documentation() -> None:
    texts = [text(page) for page in PAGES if page != PAGE]
    texts += [text(path) for path in (ROOT / "egress").rglob("*.py")]
    assert [row[0] for row in TABLE if not is_used(row[0], texts)] == []


def test_every_file_folder_and_option_that_is_named_is_there() -> None:
    reference = "".join(text(page) for page in (ROOT / "docs/reference").glob("*.md"))
    cells = " ".join(row[2] for row in TABLE)
    assert [path for path in PATH.findall(cells) if not (ROOT / path).exists()] == []
    assert [name for name in OPTION.findall(cells) if name.strip("`") not in reference] == []


GOOD = ["a", "One thing. Or two.", "`egress`", "b"]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ([GOOD, GOOD], "a: stands twice"),
        ([["c", *GOOD[1:]], GOOD], "a: comes before c"),
        ([GOOD[:3]], "a: 3 cells, one of them empty"),
        ([["a", "One.", "", "b"]], "a: 4 cells, one of them empty"),
        ([["a", "One. Two. Three.", "x", "b"]], "a: one or two sentences"),
        ([["a", "No end", "x", "b"]], "a: one or two sentences"),
        ([["a", "One.", "x", "b, a"]], "a: cannot replace itself"),
    ],
)
def test_a_fault_in_the_form_would_be_found(table: list[list[str]], fault: str) -> None:
    assert fault in faults(table)
    assert faults([GOOD]) == []


def test_a_word_that_nothing_uses_would_be_found() -> None:
    assert is_used("init process", ["class InitProcess:"])
    assert is_used("init process", ["the init process"])
    assert not is_used("init process", ["the first process", "init the process"])


def test_a_path_is_read_from_its_backquotes() -> None:
    assert PATH.findall("`egress/runtime/door`, field `rule`, `egress run`, `tests`") == [
        "egress/runtime/door",
        "tests",
    ]
    assert not Path(ROOT / "egress/nowhere").exists()
