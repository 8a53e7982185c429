"""The pages of the documentation and the fenced blocks in them.

A rule file is a block that begins with ```yaml. A name may follow (`hosts.yaml` when there is none), and
the word `wrong` after it marks an intended mistake. Commands stand in ```console blocks, see
`scripts/console.py`. Every other kind of block is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("integrations/*/README.md")])

_BLOCK = re.compile(r"^```(\S+)(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the words after it, and where its first line stands."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{name(self.page)}:{self.line}"

    @property
    def file(self) -> str:
        """The name under which a rule file is saved for the commands below it."""
        return next((word for word in self.words if word != "wrong"), "hosts.yaml")

    @property
    def is_wrong(self) -> bool:
        return "wrong" in self.words


def name(page: Path) -> str:
    """The path of a page, as people write it."""
    return page.relative_to(ROOT).as_posix()


def text(page: Path) -> str:
    """The whole page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    source = text(page)
    for match in _BLOCK.finditer(source):
        line = source.count("\n", 0, match.start()) + 2
        yield Block(page, line, match[1], tuple(match[2].split()), match[3])


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _BLOCK.sub("", text(page))
