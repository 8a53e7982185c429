"""Several `egress run` at once, beside `egress up`, for real: all succeed, and one record has all of them."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.command import command, environment, put
from tests.cli.sandboxes.test_up import PATIENCE, RULES, Place, namespaces, place, refusal

__all__ = ["namespaces", "place", "refusal"]
RUNS = 4
ASKS = "curl -s -o /dev/null -m 20 http://{}.example.org/"


def lines(place: Place, *words: str) -> list[dict[str, object]]:
    said = place.egress("log", "query", "--json", *words)
    assert said.status == 0, said
    return [json.loads(line) for line in said.out.splitlines()]


@pytest.mark.timeout(2 * PATIENCE)
def test_any_number_of_runs_succeeds_and_one_record_has_them_all(place: Place) -> None:
    assert place.egress("up", "--rules", "hosts.yaml", "--runtime", place.kind).status == 0
    put(place.folder / "other.yaml", RULES)
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(
            command(
                [
                    *("run", "--rules", "other.yaml", "--runtime", place.kind, "--name", f"agent-{number}"),
                    *("--", "sh", "-c", ASKS.format(f"host-{number}")),
                ]
            ),
            cwd=place.folder,
            env=environment(place.folder, place.env),
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for number in range(RUNS)
    ]
    for process in running:
        out, said = process.communicate()
        assert (process.returncode, out) == (0, ""), said
        # Each counts its own requests, and says nothing of the others.
        assert "1 request: 0 allowed, 1 denied" in said
        assert "another process" not in said
    found = lines(place, "--verdict", "deny")
    assert sorted(str(line["host"]) for line in found) == [
        f"host-{number}.example.org" for number in range(RUNS)
    ]
    times = [str(line["time"]) for line in found]
    assert times == sorted(times, reverse=True)
    starts = lines(place, "--event", "started")
    assert len({line["run"] for line in starts}) == RUNS + 1, "a run for each, and that of `egress up`"
    verified = json.loads(place.egress("log", "verify", "--json").out)
    assert verified["ok"], verified["faults"]
    # A run that begins after another has ended goes on with its chain.
    assert 2 <= len(verified["chains"]) <= RUNS + 1
    state = place.folder / "state"
    kept = [path for path in state.rglob("in-flight") if path.stat().st_size > 4096]
    assert kept == [state / "audit/in-flight"], "that of `egress up`, which still runs"
    assert not (state / "runs").exists()


def test_the_record_of_a_killed_run_is_not_lost(place: Place) -> None:
    """Its proxy ends with it, and the next run takes its chain."""
    words = ["run", "-q", "--rules", "hosts.yaml", "--runtime", place.kind]
    with subprocess.Popen(
        command([*words, "--", "sh", "-c", ASKS.format("one") + "; echo asked; sleep 300"]),
        cwd=place.folder,
        env=environment(place.folder, place.env),
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"asked\n"
        first.kill()
    other = place.egress(*words, "--", "sh", "-c", ASKS.format("two"))
    assert (other.status, other.out) == (0, "")
    assert [line["host"] for line in lines(place, "--verdict", "deny")] == [
        "two.example.org",
        "one.example.org",
    ]
    assert place.egress("log", "verify").status == 0
