"""A real OpenTelemetry collector takes what a proxy exports, and passes on the same.

It is built from its own modules, once for each set of versions. What it passes on is decoded by the receiver
of the tests: the collector has read all of ours, and written it anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import put
from tests.proxy.clients.cache import Fetched, work
from tests.proxy.injecting_proxy import NAME, certs, denied, made, visit
from tests.proxy.lab.otlp_receiver import OtlpReceiver, told
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import until
from tests.proxy.test_metrics import metrics as scraped
from tests.proxy.test_metrics import told as read_prometheus

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

HERE: Final = Path(__file__).parent / "collector"
SOURCES: Final = tuple(HERE / name for name in ("go.mod", "go.sum", "main.go"))
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
SPAN: Final = "b7ad6b7169203331"


def _build(folder: Path) -> None:
    for source in SOURCES:
        shutil.copy(source, folder)
    go = shutil.which("go", path=f"/usr/local/go/bin:{os.defpath}") or "go"
    words = ("-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", "collector", ".")
    work("nice", "-n", "15", go, "build", *words, folder=folder)


COLLECTOR: Final = Fetched("otel-collector", SOURCES, _build)


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@contextmanager
def collecting(folder: Path, to: OtlpReceiver) -> Iterator[str]:
    """The collector, in front of a receiver; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        at = f"127.0.0.1:{found.getsockname()[1]}"
    pipeline = {"receivers": ["otlp"], "exporters": ["otlphttp"]}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": at}}}},
        "exporters": {"otlphttp": {"endpoint": to.url, "compression": "none"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": dict.fromkeys(("traces", "metrics", "logs"), pipeline),
        },
    }
    put(folder / "collector.json", json.dumps(config))
    words = [str(COLLECTOR.folder / "collector"), "--config", f"file:{folder}/collector.json"]
    said = folder / "collector.log"
    with said.open("wb") as out:
        process = subprocess.Popen(words, env={"HOME": str(folder)}, stdout=out, stderr=out)
    try:
        ready = b"Everything is ready"
        until(lambda: process.poll() is not None or ready in said.read_bytes(), "a collector")
        assert process.poll() is None, said.read_text()
        yield f"http://{at}"
    finally:
        process.kill()
        process.wait()


async def test_a_collector_takes_spans_metrics_and_lines(
    request: pytest.FixtureRequest, tmp_path: Path, upstream: RawUpstream, receiver: OtlpReceiver
) -> None:
    await asyncio.to_thread(COLLECTOR.require, request)
    proxy = made(tmp_path, upstream)
    with collecting(tmp_path, receiver) as url:
        proxy.arguments += ["--otlp", url, "--otlp-interval", "1s"]
        with proxy as served:
            async with await visit(served, upstream) as peer:
                trace = f"traceparent: 00-{TRACE}-{SPAN}-01\r\n"
                assert (await peer.get("/echo", f"{NAME}:{upstream.port}", trace)).status == 200
            assert (await denied(served, upstream, "never-heard-of.example.test")).status == 403
            spans = await asyncio.to_thread(receiver.until, lambda r: r.spans if len(r.spans) >= 2 else [])
            await asyncio.to_thread(receiver.until, lambda r: r.metrics.get("egress_refusals"))
            lines = {json.dumps(each, separators=(",", ":")) for each in served.recorded("exchange", 2)}
            await asyncio.to_thread(
                receiver.until, lambda r: lines <= {each.body.string_value for each in r.records}
            )
            found = read_prometheus(await scraped(served))
    allowed = next(span for span in spans if span.trace_id.hex() == TRACE)
    assert allowed.parent_span_id.hex() == SPAN
    assert told(allowed.attributes)["egress.rule"] == f"{NAME}#host"
    (point,) = receiver.metrics["egress_refusals"].sum.data_points
    assert told(point.attributes) == {"code": "host.unknown", "profile": ""}
    assert receiver.metrics["egress_added_seconds"].histogram.data_points[0].count >= 1
    assert sum(found["telemetry_dropped_total"].values()) == 0, "the collector took all of it"
    assert min(found["telemetry_exported_total"].values()) > 0
