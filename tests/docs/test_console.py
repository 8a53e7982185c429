"""Every command shown in the documentation prints what its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.console import outputs, printed, refreshed
from scripts.pages import PAGES, ROOT, Block, blocks, name, text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_print_what_it_says(page: Path) -> None:
    """After a wanted change `make docs` writes what they print now; read the difference."""
    for block, output in outputs(page):
        assert output == block.text, block.place


def test_a_wrong_output_would_be_noticed(tmp_path: Path) -> None:
    block = Block(ROOT / "README.md", 1, "console", (), "$ echo 'it'\nit\n$ sh -c 'exit 3'\n$ echo $?\n3\n")
    assert printed(block, tmp_path) == block.text
    assert printed(block, tmp_path) != block.text.replace("3\n", "0\n")


def test_a_page_is_refreshed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n```console\n$ echo new\nold\n```\nafter\n")
    assert refreshed(page) == "before\n```console\n$ echo new\nnew\n```\nafter\n"
    assert text(page) != refreshed(page)


def test_every_console_block_begins_with_a_command() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                assert block.text.startswith("$ "), block.place
