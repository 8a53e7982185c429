"""`egress log suggest`: the YAML for a denied request, its risk, and its status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from egress.cli import rule_options
from egress.cli.main import cli
from egress.errors import ContentError, EgressError
from tests.unit.review.drafting.sample import denied, exchange

RULES = (
    "version: 1\nhosts:\n  api.example.com:\n    allow:\n      - { id: read, methods: [GET], paths: [/a] }\n"
)


def put(folder: Path, *lines: Mapping[str, object]) -> None:
    """A log with these lines, all of this moment."""
    folder.mkdir(exist_ok=True)
    start = {"seq": 1, "time": "2100-01-01T00:00:00.000000Z"}
    texts = (json.dumps({**start, **line, "mac": ""}, separators=(",", ":")) for line in lines)
    (folder / "audit-000001.jsonl").write_text("".join(f"{text}\n" for text in texts), "utf-8")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(RULES, "utf-8")
    put(Path("audit"), denied("rule.none", "POST", path="/b"), exchange(request="c-2", path="/\x1b[31m"))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["log", "suggest", *words, "--dir", "audit"], standalone_mode=False)


def test_says_what_to_write_and_what_it_opens() -> None:
    result = run("c-1-1")
    assert result.return_value == 0, result.exception
    assert "POST https://api.example.com/b" in result.output
    assert "write in hosts.yaml, before line 5, under api.example.com, in `allow`:" in result.output
    assert "- { id: new, methods: [POST], paths: [/b] }" in result.output
    assert "risk: POST can send out any data" in result.output
    assert "tried: with this change, the verdict is allow api.example.com#new" in result.output
    assert Path("hosts.yaml").read_text("utf-8") == RULES


def test_offers_the_preset_for_a_package_index() -> None:
    put(Path("audit"), denied("host.unknown", host="packages.example.org", path="/simple/widgets/"))
    result = run("c-1-1")
    assert "or, if packages.example.org is what this preset is for:" in result.output
    assert "  python-index  A Python package index, for reading\n" in result.output
    item = "  - { python-index: {index: packages.example.org, files: [packages.example.org]} }\n"
    assert f"\nuse:\n{item}" in result.output
    assert json.loads(run("c-1-1", "--json").stdout)["preset"]["name"] == "python-index"


def test_says_why_nothing_is_suggested() -> None:
    result = run("c-2")
    assert result.return_value == 1
    assert "it was allowed" in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_a_canary_gets_no_yaml_whether_the_rules_allow_its_request_or_not(path: str) -> None:
    put(Path("audit"), denied("canary.seen", path=path))
    result = run("c-1-1")
    assert result.return_value == 1
    assert "no suggestion: it carried a canary" in result.output
    assert "tried:" not in result.output
    assert "write" not in result.output
    data = json.loads(run("c-1-1", "--json").stdout)
    assert (data["code"], data["steps"], data["outcome"]) == ("canary.seen", [], "")


def test_as_json_for_programs() -> None:
    data = json.loads(run("c-1-1", "--json").stdout)
    assert data["code"] == "rule.none"
    assert data["steps"][0]["yaml"] == ["      - { id: new, methods: [POST], paths: [/b] }"]


def test_an_id_that_is_not_there_is_said() -> None:
    assert isinstance(run("c-9").exception, ContentError)
    assert isinstance(run("").exception, ContentError)
    assert isinstance(run("-hs82kX_a-Qw").exception, ContentError)


def test_it_stands_below_log() -> None:
    assert CliRunner().invoke(cli, ["log", "suggest", "--help"]).exit_code == 0


def test_a_line_is_found_where_no_index_can_be_had() -> None:
    Path("nowhere").write_text("", "utf-8")
    result = run("c-1-1", "--index", "nowhere/index")
    assert result.return_value == 0, result.exception
    assert "POST https://api.example.com/b" in result.output
    assert not Path("audit/index.sqlite3").exists()


def test_a_connection_is_answered_by_its_newest_request() -> None:
    put(Path("audit"), denied("rule.none", "POST", path="/b"), denied("rule.none", "PUT", path="/c"))
    assert "PUT https://api.example.com/c" in run("c-1").output


def test_the_rules_of_the_run_are_taken_in_any_folder_and_others_are_remarked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command stands in the denial, and whoever reads it is seldom where the run began."""
    digest = rule_options.policy((tmp_path / "hosts.yaml",))[1].digest
    start = {"event": "started", "run": "one", "files": str(tmp_path / "hosts.yaml")}
    refused = {**denied("rule.none", "POST", path="/b"), "run": "one"}

    def suggested(policy: str, files: str = "") -> Result:
        began = {**start, "policy": policy, **({"files": files} if files else {})}
        put(tmp_path / "audit", began, {**refused, "policy": policy})
        return CliRunner().invoke(
            cli, ["log", "suggest", "c-1-1", "--dir", str(tmp_path / "audit")], standalone_mode=False
        )

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = suggested(digest)
    assert f"write in {tmp_path}/hosts.yaml, before line 5" in found.stdout
    assert found.stderr == ""
    changed = suggested("0" * 64)
    assert "is not what decided this request" in changed.stderr
    (elsewhere / "hosts.yaml").write_text(RULES.replace("/a", "/c"), "utf-8")
    others = suggested(digest, "gone.yaml")
    assert "hosts.yaml is not what decided this request (gone.yaml)" in others.stderr
    (elsewhere / "hosts.yaml").unlink()
    missing = suggested(digest, "gone.yaml")
    assert isinstance(missing.exception, EgressError)
    assert missing.exception.hint == "name them with --rules: the request was decided by gone.yaml"


def test_the_yaml_can_be_copied_as_it_stands() -> None:
    """With the indent that it has in the file, and no more."""
    lines = run("c-1-1").stdout.splitlines()
    step = lines.index("  write in hosts.yaml, before line 5, under api.example.com, in `allow`:")
    text = Path("hosts.yaml").read_text("utf-8").splitlines()
    text[4:4] = [lines[step + 1]]
    Path("hosts.yaml").write_text("\n".join(text) + "\n", "utf-8")
    _, policy = rule_options.policy((Path("hosts.yaml"),))
    assert "api.example.com" in str(policy)
