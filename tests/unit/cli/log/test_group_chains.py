"""`egress log` and `egress rules` over a log that several runs write at once: each command sees all runs."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from egress.audit import Sink, open_log
from egress.cli import rule_options
from egress.cli.main import cli
from tests.unit.audit.sample import DENIED, FACTS, KEY, RECORD, Clock, opened
from tests.unit.cli.log.sample import make, run
from tests.unit.review.sample import HOUR


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of an older version in two places, and three runs of this one that are on their way."""
    log = make(tmp_path, monkeypatch)
    monkeypatch.setattr(rule_options, "now", lambda: Clock().ns // 10**9 + 12 * 3600)
    clock = Clock()
    clock.ns += 8 * HOUR
    old = opened(tmp_path / "runs/4f2a9c1e/audit", clock)
    old.exchange(None, DENIED, replace(FACTS, request="old-1"))
    old.close()
    return log


@pytest.fixture
def runs(log: Path) -> list[Sink]:
    clock = Clock()
    clock.ns += 9 * HOUR
    sinks = [open_log(log, KEY, clock=clock, run=name, in_flight=8) for name in ("one", "two", "three")]
    for number in range(6):
        clock.ns += 10**9
        record = DENIED if number == 4 else replace(RECORD, path=f"/at/{number}")
        sinks[number % 3].exchange(None, record, replace(FACTS, request=f"new-{number}"))
        sinks[number % 3].flush()
    return sinks


def requests(said: str) -> list[str]:
    return [json.loads(line).get("request", "") for line in said.splitlines()]


@pytest.mark.usefixtures("runs")
def test_a_query_and_a_tail_show_every_run_by_time_and_name_it() -> None:
    said = run("query", "--event", "exchange", "--json", "--limit", "9")[1]
    assert requests(said) == [*(f"new-{number}" for number in range(5, -1, -1)), "old-1", "r-6", "r-4"]
    assert [json.loads(line).get("run") for line in said.splitlines()][:3] == ["three", "two", "one"]
    assert requests(run("query", "--run", "two", "--json")[1]) == ["new-4", "new-1"]
    tail = run("tail", "-n", "3")[1].splitlines()
    assert [line.split()[-1] for line in tail] == ["one", "two", "three"]
    status, said, beside = run("query", "--limit", "2", "--json")
    place = beside.rpartition("--before ")[2].split("`")[0]
    assert requests(run("query", "--limit", "2", "--json", "--before", place)[1]) == ["new-3", "new-2"]
    assert (status, requests(said)) == (0, ["new-5", "new-4"])


@pytest.mark.usefixtures("runs")
def test_totals_and_tables_count_every_run() -> None:
    found = json.loads(run("stats", "--by", "run", "--json")[1])
    rows = {row["name"]: row["requests"] for row in found["rows"]}
    assert {name: rows[name] for name in ("one", "two", "three")} == {"one": 2, "two": 2, "three": 2}
    table = list(csv.DictReader(io.StringIO(run("query", "--csv", "--limit", "2")[1])))
    assert [row["run"] for row in table] == ["three", "two"]


@pytest.mark.usefixtures("runs")
def test_a_request_of_any_run_is_shown_with_its_file(log: Path) -> None:
    said = run("show", "new-4")[1]
    assert "chains/0002/audit-000001.jsonl" in said
    assert "run two" in said
    assert "../runs/4f2a9c1e/audit/audit-000001.jsonl" in run("show", "old-1")[1]
    rules = log / "hosts.yaml"
    rules.write_text("version: 1\nhosts: {api.example.com: {allow: all}}\n")
    for request in ("new-4", "old-1"):
        assert "api.github.com" in run("suggest", request, "--rules", str(rules))[1]


def test_a_draft_and_a_replay_take_the_traffic_of_every_run(log: Path, runs: list[Sink]) -> None:
    for sink in runs:
        sink.close()
    rules = log / "hosts.yaml"
    rules.write_text("version: 1\nhosts: {api.example.com: {allow: all}}\n")
    for words, told in ((["draft"], "/at/"), (["replay", str(rules)], "8 x  GET api.github.com")):
        result = CliRunner().invoke(cli, ["rules", *words, "--since", "1d"], standalone_mode=False)
        assert result.exception is None, result.exception
        # Three of the first run, and five of those that are on their way.
        assert told in result.stdout


def test_verify_says_which_chain_is_broken(log: Path, runs: list[Sink]) -> None:
    status, said, _ = run("verify")
    assert status == 0
    lines = said.splitlines()
    assert lines[0].endswith("in 4 files of 4 chains")
    assert lines[2].startswith("newest: chains/0002: 2 ")
    assert lines[4].startswith("newest: ../runs/4f2a9c1e/audit: 1 ")
    for sink in runs:
        sink.close()
    file = log / "chains/0003/audit-000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b"/at/2", b"/at/3"))
    status, said, _ = run("verify")
    assert status == 1
    assert said.startswith("chains/0003/audit-000001.jsonl:1: this line, number 1")
    shutil.rmtree(log / "chains/0002")
    status, said, _ = run("verify", "--json")
    found = json.loads(said)
    assert {fault["file"] for fault in found["faults"]} == {"chains/0002", file.relative_to(log).as_posix()}
    assert {chain["place"]: chain["ok"] for chain in found["chains"]} == {
        ".": True,
        "chains/0003": False,
        "../runs/4f2a9c1e/audit": True,
    }


def test_a_bundle_is_of_every_run_and_says_where_each_chain_ended(
    log: Path, runs: list[Sink], tmp_path: Path
) -> None:
    bundle = tmp_path / "evidence.zip"
    run("export", "--verdict", "deny", "--output", str(bundle))
    said = run("verify", str(bundle))[1]
    assert "chains/0003: up to number 2" in said
    assert "../runs/4f2a9c1e/audit: up to number 1" in said
    assert len(runs) == 3
    assert log.is_dir()


def test_pruning_names_files_of_every_chain(log: Path, runs: list[Sink]) -> None:
    runs[1].close()
    later = ("prune", "--older-than", "2027-01-01")
    said = run(*later, "--dry-run")[1]
    assert "would be deleted: chains/0002/audit-000001.jsonl" in said
    assert "would be deleted: ../runs/4f2a9c1e/audit/audit-000001.jsonl" in said
    assert "chains/0003" not in said
    assert run(*later)[1].startswith("deleted: chains/0002/audit-000001.jsonl")
    assert json.loads(run("verify", "--json")[1])["ok"]
    assert (log / "chains/0003/audit-000001.jsonl").exists()
