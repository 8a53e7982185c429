"""Every command shown in the documentation is run, and prints what the page says.

A line of a ```console block that begins with `$ ` is run by sh, in a folder with the rule files shown so
far on that page; the lines below it are what it prints, both streams. `egress` and `make run` are what a
reader would run; there is no network and no secret.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks

# Each command is shown, then run, and the exit status of the one before it is still there for `echo $?`.
SHELL = f"""
export PYTHONPATH='{ROOT}'
egress() {{ '{sys.executable}' -m egress "$@"; }}
"""
STEP = "status=$?; printf '%s\\n' '$ {shown}'; (exit $status)\n{command}\n"


def commands(block: Block) -> Iterator[str]:
    return (line[2:] for line in block.text.splitlines() if line.startswith("$ "))


def script(block: Block) -> str:
    quoted = ((command.replace("'", "'\\''"), command) for command in commands(block))
    return SHELL + "".join(STEP.format(shown=shown, command=command) for shown, command in quoted)


def shown_again(block: Block, folder: Path) -> str:
    """What the commands of the block print when they are run one after the other."""
    ran = subprocess.run(
        ["sh", "-c", script(block)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # The folder has a name of its own in every run.
    return ran.stdout.replace(f"{folder}/", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml":
            file = tmp_path / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            assert shown_again(block, tmp_path) == block.text, block.place


def test_a_wrong_output_would_be_noticed(tmp_path: Path) -> None:
    block = Block(ROOT / "README.md", 1, "console", (), "$ echo 'it'\nit\n$ sh -c 'exit 3'\n$ echo $?\n3\n")
    assert shown_again(block, tmp_path) == block.text
    assert shown_again(block, tmp_path) != block.text.replace("3", "0")


def test_every_console_block_begins_with_a_command() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                assert block.text.startswith("$ "), block.place
