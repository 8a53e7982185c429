"""The guide to the API shows what a running `egress up` answers: its commands, in order, in one shell.

Durations, times and remaining seconds differ from run to run, and are put back to what the page says before
it is compared. Everything else has to be as it is shown.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.api.operations import OPERATIONS
from egress.api_server.call import STATUS_BY_CODE
from egress.sandbox.files import Files
from egress.sandbox.handle import Sandbox
from scripts.console import STEP
from scripts.pages import ROOT, blocks, name, prose, text
from tests.cli.command import egress, environment, put
from tests.docs.test_start import free_port
from tests.fleet.memory_fleet import short_folder
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

PAGE = ROOT / "docs/guides/api.md"
COMPARISON = ROOT / "docs/compare-api.md"
SHOWN = [block for block in blocks(PAGE) if block.words == ("up",)]
PORT = "8700"
PYTHON = f"python3() {{ '{sys.executable}' -P \"$@\"; }}\n"
ATTRIBUTES = {"git", "policy", "audit"}
VARYING = {
    r'"id":"[0-9a-f]{16}"': '"id":"9f2c4e1ab07d5538"',
    r'"(duration|idle)":[\d.e-]+': r'"\1":0.1',
    r'"left":[\d.]+': '"left":3599.9',
    r'"id":"g-[0-9a-f]{8}"': '"id":"g-5f2b8c0d"',
    r'"expires":\d+': '"expires":1772357400',
    r'"(created|modified|started)":"[^"]+"': r'"\1":"2026-03-01T09:30:00Z"',
}


def settled(printed: str) -> str:
    """A text without what differs from run to run."""
    for pattern, usual in VARYING.items():
        printed = re.sub(pattern, usual, printed)
    return printed


@pytest.fixture
def port() -> str:
    """A port that nobody uses just now: the one of the page may be taken."""
    return free_port()


@pytest.fixture
def home(namespaces: None, port: str) -> Iterator[Path]:
    """A folder with the files of the page, beside a running `egress up`."""
    with short_folder() as found:
        for block in blocks(PAGE):
            if block.language in ("yaml", "python"):
                put(found / block.file, block.text)
        env = {"XDG_RUNTIME_DIR": str(found)}
        options = ["--rules", "hosts.yaml", "--runtime", "namespace", "--api-listen", f"127.0.0.1:{port}"]
        up = egress("up", *options, cwd=found, env=env, timeout=100)
        try:
            assert up.status == 0, up
            yield found
        finally:
            egress("down", cwd=found, env=env)


@pytest.mark.system("curl", "curl")
def test_every_command_of_the_guide_prints_what_it_says(home: Path, port: str) -> None:
    script = PYTHON
    for block in SHOWN:
        for line in block.text.splitlines():
            if line.startswith("$ "):
                real = line[2:].replace(f":{PORT}/", f":{port}/")
                script += STEP.format(shown=line[2:].replace("'", "'\\''"), command=real)
    shell = subprocess.run(
        ["sh", "-c", script],
        cwd=home,
        env=environment(home, {"XDG_RUNTIME_DIR": str(home)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=100,
    )
    wanted = "".join(block.text for block in SHOWN)
    assert settled(shell.stdout).splitlines() == wanted.splitlines()


def test_a_difference_between_page_and_answer_would_be_noticed() -> None:
    """Only times are put back, and no other part of an answer."""
    assert settled('{"exit_code":3,"duration":0.02}') == '{"exit_code":3,"duration":0.1}'
    assert all(settled(block.text) == block.text for block in SHOWN)


def test_every_type_of_the_table_has_the_status_that_it_says() -> None:
    rows = re.findall(r"^\| (`[a-z]+[.`].*?) \| ([\d, ]+) \|", text(PAGE), re.MULTILINE)
    assert len(rows) > 6
    for types, statuses in rows:
        told = {str(int(STATUS_BY_CODE[each])) for each in re.findall(r"`([^`]+)`", types)}
        assert told == set(statuses.split(", ")), types


@pytest.mark.parametrize("page", [PAGE, COMPARISON], ids=name)
def test_every_call_that_is_named_exists(page: Path) -> None:
    targets = {(each.method, each.path) for each in OPERATIONS.values()}
    named = re.findall(r"`(GET|HEAD|PUT|PATCH|POST|DELETE) ([^`?\s]+)", prose(page))
    assert len(named) > 4
    for method, path in named:
        pattern = "/v1/" + path.removeprefix("/v1/")
        pattern = pattern.replace("builder", "{name}").replace("NAME", "{name}").replace("PORT", "{port}")
        assert (method, pattern) in targets, path


def test_every_method_that_is_compared_exists() -> None:
    rows = re.findall(r"^\| \*\*Egress\*\*, Python \| (.+)$", text(COMPARISON), re.MULTILINE)
    named = [each for row in rows for each in re.findall(r"`[Ss]andbox\.([a-z_.]+)", row)]
    assert len(rows) == 13
    assert len(named) > 20
    for path in named:
        owner, _, method = path.rpartition(".")
        assert hasattr({"": Sandbox, "files": Files}[owner], method) or path in ATTRIBUTES, path


def test_every_need_shows_both_ways_to_ask_egress() -> None:
    sections = text(COMPARISON).split("\n## ")[1:-1]
    assert len(sections) == 13
    for section in sections:
        rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
        assert rows[-2:] == ["**Egress**, Python", "**Egress**, API"], section
        assert rows[-8:-2] == ["Cloudflare", "E2B", "Daytona", "Modal", "Vercel", "agent-sandbox"], section
