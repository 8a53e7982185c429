"""The log of a proxy that runs is pruned by another process, and the proxy tells of it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.serve_process import ServeProcess, until

RULES = "version: 1\nhosts:\n  api.example.com: {}\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    """One whose log has more than one file."""
    with ServeProcess(tmp_path, RULES, ["--audit-rotate", "4096"]) as proxy:
        for number in range(14):
            refused(proxy, f"x{number}.example")
        until(lambda: len(logs(proxy)) > 1, "a second file of the log")
        yield proxy


def refused(proxy: ServeProcess, host: str) -> None:
    """A request that no rule allows, which is a line."""
    visit = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    visit.request("GET", f"http://{host}/")
    assert visit.getresponse().status == 403
    visit.close()


def logs(proxy: ServeProcess) -> list[Path]:
    return sorted((proxy.state / "audit").glob("*.jsonl"))


def prune(proxy: ServeProcess) -> None:
    done = proxy.egress("log", "prune", "--keep-files", "1")
    assert (done.status, done.err) == (0, "")
    assert "1 file deleted" in done.out


def test_the_line_follows_while_it_runs(served: ServeProcess) -> None:
    prune(served)
    [line] = served.recorded("pruned")
    assert (line["files"], line["forced"]) == (1, False)
    refused(served, "later.example")
    until(lambda: served.records()[-1].get("host") == "later.example", "the next line")
    verified = served.egress("log", "verify")
    assert verified.status == 0
    assert f"1 file before it, {line['bytes']} bytes, deleted by {line['by']}" in verified.out


def test_after_a_kill_it_is_told_and_the_log_is_sound(served: ServeProcess) -> None:
    """Before the kill or by the next start; and if the kill was in between, twice."""
    prune(served)
    served.kill()
    served.start()
    found = served.recorded("pruned")
    assert {(line["at"], line["files"]) for line in found} == {(found[0]["at"], 1)}
    assert served.egress("log", "verify").status == 0
