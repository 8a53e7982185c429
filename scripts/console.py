"""Run the commands that the documentation shows, and say what they print.

A line of a ```console block that begins with `$ ` is run by sh, in a folder with the rule files, and the
Python files with a name, shown so far on that page; the lines below it are what it prints, both streams.
`egress` is the command that a reader has on the path. Nothing reaches a network, and there is no secret.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.pages import ROOT, Block, blocks, text

SHELL = f"""
export PYTHONPATH='{ROOT}'
egress() {{ '{sys.executable}' -m egress "$@"; }}
"""
# Each command is shown, then run, and the exit status of the one before it is still there for `echo $?`.
STEP = "status=$?; printf '%s\\n' '$ {shown}'; (exit $status)\n{command}\n"


def outputs(page: Path) -> Iterator[tuple[Block, str]]:
    """Every console block of a page, and what its commands print."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for block in blocks(page):
            # A Python block with a name is a file, such as one of handlers; others are only read.
            if block.language == "yaml" or (block.language == "python" and block.words):
                file = folder / block.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                yield block, printed(block, folder)


def printed(block: Block, folder: Path) -> str:
    """The commands of one block, run one after the other, and what they print."""
    ran = subprocess.run(
        ["sh", "-c", SHELL + "".join(steps(block))],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # The folder has another name in every run.
    return ran.stdout.replace(f"{folder}/", "")


def steps(block: Block) -> Iterator[str]:
    """The commands of a block, as lines for sh."""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            yield STEP.format(shown=line[2:].replace("'", "'\\''"), command=line[2:])


def refreshed(page: Path) -> str:
    """The text of the page with what its commands print today."""
    source = text(page)
    for block, output in outputs(page):
        source = source.replace(f"```console\n{block.text}```", f"```console\n{output}```", 1)
    return source
