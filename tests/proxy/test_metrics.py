"""The metrics of a proxy that runs: what is counted on each way, how it is asked for, and who may."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from egress.telemetry.prometheus_text import CONTENT_TYPE
from tests.proxy.injecting_proxy import BLIND, NAME, SECRET, certs, denied, made, rules, visit
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess, until

GUIDE = Path(__file__).parents[2] / "docs/guides/metrics.md"
UNKNOWN = "never-heard-of.example.test"


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME, BLIND)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream) -> Iterator[ServeProcess]:
    with made(tmp_path, upstream) as served:
        yield served


def told(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """By the name of the sample, and by the values of its labels in the order of their names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in sorted(sample.labels))
            found.setdefault(sample.name.removeprefix("egress_"), {})[labels] = sample.value
    return found


async def metrics(served: ServeProcess) -> str:
    outcome = await asyncio.to_thread(served.egress, "metrics")
    assert outcome.status == 0, outcome.err
    return outcome.out


async def ended(served: ServeProcess, name: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The metrics, once there is one of this name: an exchange is counted when it has ended."""
    for _ in range(50):
        found = told(await metrics(served))
        if name in found:
            return found
    raise AssertionError(f"no {name}")


async def test_a_request_a_refusal_and_a_tunnel_are_counted(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await visit(served, upstream) as peer:
        assert (await peer.get("/echo?q=hidden", f"{NAME}:{upstream.port}")).status == 200
    async with await visit(served, upstream, BLIND) as peer:
        assert (await peer.get("/echo", f"{BLIND}:{upstream.port}")).status == 200
    assert (await denied(served, upstream, UNKNOWN)).status == 403
    found = await ended(served, "tunnels_total")
    # Labels in the order of their names: entry, rule, verdict.
    assert found["requests_total"] == {(NAME, f"{NAME}#host", "allow"): 1, ("", "", "deny"): 1}
    assert found["refusals_total"] == {("host.unknown", ""): 1}, "code and profile"
    assert found["tunnels_total"] == {(BLIND,): 1}
    assert found["injections_total"] == {("tracker",): 1}
    assert found["scrubbed_total"] == {("tracker",): 1}, "the upstream says what it was sent"
    assert found["upstream_seconds_count"] == {(NAME,): 1}
    assert found["added_seconds_count"] == {(): 1}
    assert found["secret_available"] == {("tracker",): 1}
    assert found["ready"] == {(): 1}
    assert found["audit_writable"] == {(): 1}
    assert found["audit_lag_seconds"][()] < 60
    assert 0 <= found["secret_age_seconds"][("tracker",)] < 60
    assert found["audit_newest_line"][()] >= 4
    assert found["audit_damaged"] == {(): 0}
    assert found["audit_write_failures_total"] == {(): 0}
    assert found["authority_expiry_time_seconds"][()] > found["start_time_seconds"][()]
    assert [len(digest) for (digest,) in found["rules_info"]] == [12]
    assert sum(found["loop_lag_seconds_count"].values()) >= 0
    assert found["carried"].keys() == {("full",), ("tunnel",)}


async def test_nothing_that_was_asked_for_is_told(served: ServeProcess, upstream: RawUpstream) -> None:
    async with await visit(served, upstream) as peer:
        await peer.get("/echo?q=hidden", f"{NAME}:{upstream.port}")
    assert (await denied(served, upstream, UNKNOWN)).status == 403
    text = await metrics(served)
    assert NAME in text, "the control"
    for never in (UNKNOWN, "/echo", "hidden", SECRET, "127.0.0.1"):
        assert never not in text


async def test_connections_under_way_are_told_by_lane(served: ServeProcess, upstream: RawUpstream) -> None:
    async with await visit(served, upstream), await visit(served, upstream, BLIND):
        found = told(await metrics(served))
    assert found["carried"] == {("full",): 1, ("tunnel",): 1}
    assert found["connections"] == {(): 2}
    assert found["sandboxes"] == {(): 1}


async def test_an_entry_that_leaves_the_rules_leaves_the_metrics(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await visit(served, upstream) as peer:
        await peer.get("/echo", f"{NAME}:{upstream.port}")
    assert (NAME, f"{NAME}#host", "allow") in (await ended(served, "requests_total"))["requests_total"]
    served.write(rules(upstream.port, f"file:{served.folder / 'secret'}").replace(NAME, "new.example.test"))
    await asyncio.to_thread(served.ask, "POST", "/reload")
    text = await metrics(served)
    assert NAME not in text
    assert told(text)["reloads_total"][("loaded",)] >= 1


async def test_a_host_that_was_killed_keeps_its_counts(served: ServeProcess, upstream: RawUpstream) -> None:
    async with await visit(served, upstream) as peer:
        await peer.get("/echo", f"{NAME}:{upstream.port}")
    await ended(served, "requests_total")
    await asyncio.to_thread(served.egress, "kill", NAME)
    assert told(await metrics(served))["requests_total"] == {(NAME, f"{NAME}#host", "allow"): 1}


@pytest.mark.system("curl", "curl")
async def test_curl_gets_the_plain_text(served: ServeProcess) -> None:
    command = ["curl", "-si", "--noproxy", "*", "--unix-socket", str(served.runtime / "control.sock")]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "http://egress/metrics"], capture_output=True, text=True, check=True
    )
    head, _, body = done.stdout.partition("\n\n")
    assert f"content-type: {CONTENT_TYPE}" in head
    assert told(body)["ready"] == {(): 1}


def test_without_a_proxy_it_says_so_and_prints_no_metric(served: ServeProcess) -> None:
    served.kill()
    outcome = served.egress("metrics")
    assert outcome.status == 3
    assert outcome.out == ""
    assert "no proxy is running" in outcome.err


# What stands between the socket and Prometheus ----------------------------------------------------


def between(folder: Path, control: Path) -> Path:
    """The configuration of the guide, for this socket and a socket of its own instead of the port."""
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    text = found[1].replace("/run/user/1000/egress/control.sock", str(control))
    text = text.replace("/run/user/1000", str(folder)).replace(
        "127.0.0.1:9464", f"unix:{folder}/metrics.sock"
    )
    path = folder / "nginx.conf"
    path.write_text(text, encoding="utf-8")
    return path


def asked(folder: Path, path: str, *words: str) -> str:
    """The status of an answer, and what it says."""
    command = ["curl", "-s", "--noproxy", "*", "--unix-socket", str(folder / "metrics.sock"), *words]
    done = subprocess.run(
        [*command, "-w", "%{http_code}", f"http://egress{path}"], capture_output=True, text=True, check=False
    )
    return done.stdout[-3:] + done.stdout[:-3]


@pytest.mark.system("nginx", "nginx")
@pytest.mark.system("curl", "curl")
def test_what_the_guide_puts_between_lets_the_metrics_through_and_nothing_else(served: ServeProcess) -> None:
    folder = served.runtime
    conf = between(folder, folder / "control.sock")
    # As root the workers would be somebody else.
    words = ["nginx", "-p", str(folder), "-c", str(conf), "-g", "daemon off; user root;"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as nginx:
        try:
            until(lambda: (folder / "metrics.sock").exists() or nginx.poll() is not None, "nginx")
            text = asked(folder, "/metrics")
            assert text.startswith("200# HELP egress_")
            assert told(text[3:])["ready"] == {(): 1}
            for path in ("/", "/status", "/placeholders", "/kill", "/stop", "/metrics/../stop", "/metrics/x"):
                assert asked(folder, path, "-X", "POST", "--path-as-is").startswith("404"), path
            # Another method becomes the one that only reads, and its body stays here.
            assert asked(folder, "/metrics", "-d", '{"as": "json"}').startswith("200# HELP")
        finally:
            nginx.terminate()
    assert served.process.poll() is None
