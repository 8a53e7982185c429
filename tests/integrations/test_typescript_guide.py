"""The guide to the TypeScript client shows what runs: its programs, in order, compiled in strict mode."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.pages import blocks, text
from tests.cli.command import put
from tests.integrations.conftest import GUIDE as PAGE
from tests.integrations.packages import CLIENT, Workshop

SHOWN = [block for block in blocks(PAGE) if block.language in ("ts", "text")]
PROGRAMS = [(program, output.text) for program, output in pairwise(SHOWN) if output.language == "text"]


@pytest.fixture(scope="module")
def guide(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The programs of the page, compiled; the last one is for a machine that is not there."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "node_modules").symlink_to(workshop.folder / "node_modules")
    put(folder / "package.json", '{ "type": "module" }')
    put(folder / "programs/tsconfig.json", text(workshop.folder / "programs/tsconfig.json"))
    for number, block in enumerate(block for block in SHOWN if block.language == "ts"):
        put(folder / "programs" / (block.words[0] if block.words else f"{number}.ts"), block.text)
    made = Workshop(folder)
    made.compile(folder / "programs/tsconfig.json")
    return made


@pytest.mark.system("npm", "npm")
@pytest.mark.timeout(300)
@pytest.mark.system("curl", "curl")
@pytest.mark.usefixtures("namespaces")
def test_every_program_of_the_guide_prints_what_it_says(guide: Workshop, node: Path, up: Path | None) -> None:
    for program, expected in PROGRAMS:
        name = program.words[0].replace(".ts", ".js")
        ran = guide.run(node, f"built/{name}", env={"EGRESS_RUNTIME_DIR": str(up)})
        assert ran.stdout == expected, program.place


def test_only_the_program_for_another_machine_shows_no_output() -> None:
    shown = {program for program, _ in PROGRAMS}
    (silent,) = (block for block in SHOWN if block.language == "ts" and block not in shown)
    assert "boxes.example.com" in silent.text


def test_every_method_that_is_named_exists() -> None:
    source = "\n".join(text(path) for path in (CLIENT / "src").glob("*.ts"))
    methods = set(re.findall(r"^  (?:async )?(\w+)(?:<.*>)?\(", source, re.MULTILINE))
    named = set(re.findall(r"`(\w+)(?:\(.*?\))?`", text(PAGE))) - OTHER_WORDS
    assert named - methods == set()


OTHER_WORDS = {
    "type",
    "hint",
    "status",
    "timeout",
    "next",
    "maxBytes",
    "ca",
    "fetch",
    "terminal",
    "EgressError",
    "cursor",
}
