"""The guide on rules from traffic shows what the commands print, for the traffic that is made here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from egress.cli.main import cli, main
from scripts.pages import ROOT, Block, blocks
from tests.unit.cli.log.test_suggest import put
from tests.unit.review.drafting.sample import denied, exchange

PAGE = ROOT / "docs/guides/rules-from-traffic.md"
TRACKER = [("tracker", "header:authorization")]
LINES = [
    *(exchange(path=f"/v1/issues/{number}", injected=TRACKER, request="c-1-2") for number in range(101, 113)),
    *(exchange("POST", path="/v1/issues", injected=TRACKER, request="c-1-3") for _ in range(4)),
    *(exchange(host="docs.example.com", path=f"/guide/{page}", request="c-1-4") for page in ("start", "api")),
    *(
        exchange(host="files.example.net", path=f"/report-2026-03-{day:02}.csv", request="c-1-5")
        for day in range(1, 6)
    ),
    denied("rule.denied", path="/admin/users", request="c-1-8"),
    denied("rule.none", "DELETE", path="/v1/issues/101", request="c-1-9"),
]
Captured = pytest.CaptureFixture[str]


def block(language: str, *, file: str = "", containing: str = "") -> Block:
    (found,) = [
        one
        for one in blocks(PAGE)
        if one.language == language and (not file or one.file == file) and containing in one.text
    ]
    return found


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("audit"), *LINES)
    for name in ("hosts.yaml", "drafted.yaml", "narrow.yaml"):
        Path(name).write_text(block("yaml", file=name).text, "utf-8")


def test_the_draft_is_the_one_that_is_printed(capsys: Captured) -> None:
    assert main(["rules", "draft", "--dir", "audit"]) == 0
    assert capsys.readouterr().out == block("yaml", file="drafted.yaml").text
    assert main(["check", "--strict", "drafted.yaml"]) == 0


@pytest.mark.parametrize(
    ("file", "status", "text"), [("drafted.yaml", 0, "nothing newly"), ("narrow.yaml", 1, "newly denied:")]
)
def test_the_replays_are_those_that_are_printed(file: str, status: int, text: str, capsys: Captured) -> None:
    assert main(["rules", "replay", file, "--dir", "audit"]) == status
    assert capsys.readouterr().out == block("text", containing=text).text


def test_the_suggestion_is_the_one_that_is_printed() -> None:
    result = CliRunner().invoke(cli, ["log", "suggest", "c-1-9", "--dir", "audit"], standalone_mode=False)
    assert result.return_value == 0
    printed = re.sub(r" +\n", "\n", result.stdout)
    assert printed == block("text", containing="tried:").text
