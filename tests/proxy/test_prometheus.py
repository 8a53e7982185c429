"""Each panel and each alert rule in a real Prometheus, which scrapes a proxy under load."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import put
from tests.proxy.injecting_proxy import BLIND, NAME, certs, denied, made, visit
from tests.proxy.lab.otlp_receiver import OtlpReceiver
from tests.proxy.lab.raw_upstream import Cut, RawUpstream
from tests.proxy.serve_process import ServeProcess, until

pytestmark = [pytest.mark.nightly, pytest.mark.system("prometheus")]

CHART = Path(__file__).parents[2] / "charts/egress"
TOKEN = "a-token-of-the-operator"
SCRAPES = 8


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME, BLIND)) as upstream:
        upstream.script("/cut", Cut())
        yield upstream


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """The one of Debian, with our rules; yields its address."""
    at = f"127.0.0.1:{free_port()}"
    rules = put(folder / "rules/egress.yaml", (CHART / "alerts/egress.yaml").read_text(encoding="utf-8"))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "egress",
                "authorization": {"credentials_file": str(folder / "token")},
                "static_configs": [{"targets": [target]}],
            }
        ],
    }
    put(folder / "prometheus.yml", json.dumps(config))
    words = [
        str(shutil.which("prometheus")),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={at}",
    ]
    with (folder / "prometheus.log").open("wb") as out:
        process = subprocess.Popen(words, cwd=folder, env={"HOME": str(folder)}, stdout=out, stderr=out)
    try:
        until(lambda: asked(at, "query", "result", query="egress_ready"), "a sample in Prometheus")
        yield at
    finally:
        process.kill()
        process.wait()


def asked(at: str, what: str, part: str, **words: str) -> list[dict[str, Any]]:
    """A part of an answer; nothing where Prometheus is not there yet. An error of a query is raised."""
    url = f"http://{at}/api/v1/{what}?{urllib.parse.urlencode(words)}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=20) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"][part]
    except urllib.error.HTTPError as error:
        # While it reads its own data, it has no answer yet.
        if error.code == 503:
            return []
        raise AssertionError(f"{words}: {error.read().decode()}") from None
    except OSError:
        return []
    return found


async def load(served: ServeProcess, upstream: RawUpstream) -> None:
    """Some of everything that is counted."""
    async with await visit(served, upstream) as peer:
        for _ in range(3):
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
    async with await visit(served, upstream, BLIND) as peer:
        assert (await peer.get("/echo", f"{BLIND}:{upstream.port}")).status == 200
    async with await visit(served, upstream) as peer:
        assert (await peer.get("/cut", f"{NAME}:{upstream.port}")).status == 502
    assert (await denied(served, upstream, "never-heard-of.example.test")).status == 403


def panels() -> Iterator[tuple[str, str]]:
    """Title and query of each panel, as Grafana would fill it in."""
    for path in sorted((CHART / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$job", ".*").replace("$__rate_interval", "1m")
                yield f"{path.stem}: {panel['title']}", query


EMPTY = frozenset({"egress-traffic: Cut exchanges", "egress-health: Watches of the cluster"})
"""Nothing is cut here, which takes a canary or a revocation in mid-stream; and there is no cluster."""


async def test_each_panel_has_something_to_show_and_each_rule_is_sound(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    put(tmp_path / "token", TOKEN).chmod(0o600)
    proxy = made(tmp_path, upstream)
    target = f"127.0.0.1:{free_port()}"
    proxy.arguments += ["--metrics", target, "--metrics-token-file", "token", "--otlp-interval", "1s"]
    with OtlpReceiver() as receiver:
        proxy.arguments += ["--otlp", receiver.url]
        with proxy as served, prometheus(tmp_path, target) as at:
            for _ in range(SCRAPES):
                await load(served, upstream)
                await asyncio.sleep(1)
            found = {
                (title, query): await asyncio.to_thread(asked, at, "query", "result", query=query)
                for title, query in panels()
            }
            (group,) = await asyncio.to_thread(asked, at, "rules", "groups")
    empty = sorted(title for (title, _), result in found.items() if not result and title not in EMPTY)
    assert empty == []
    assert not [key for key, result in found.items() if "sandbox" in str([each["metric"] for each in result])]
    verdicts = {
        each["metric"]["verdict"]: float(each["value"][1])
        for (title, _), result in found.items()
        for each in result
        if title == "egress-traffic: Requests by verdict"
    }
    assert verdicts.keys() == {"allow", "deny"}
    assert verdicts["allow"] > verdicts["deny"] > 0
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    firing = {rule["name"] for rule in group["rules"] if rule["state"] == "firing"}
    assert firing == set(), "a proxy under load is no reason for an alert"
