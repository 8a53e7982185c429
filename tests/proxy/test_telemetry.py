"""Telemetry of a whole proxy: what a collector gets, what it never gets, and that it holds nothing up."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.telemetry.exchange_span import SPAN_ATTRIBUTES
from tests.cli.command import put
from tests.proxy.injecting_proxy import NAME, SECRET, certs, denied, made, visit
from tests.proxy.lab.otlp_receiver import OK, OtlpReceiver, told
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess
from tests.proxy.test_metrics import metrics as scraped
from tests.proxy.test_metrics import told as read_prometheus

UNKNOWN = "never-heard-of.example.test"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "vendor=state-of-a-sandbox"
TOKEN = "token-of-the-collector-1234"


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


def exporting(folder: Path, upstream: RawUpstream, to: OtlpReceiver, *more: str) -> ServeProcess:
    """A proxy that exports to this receiver, not started yet."""
    proxy = made(folder, upstream)
    proxy.arguments += ["--otlp", to.url, "--otlp-interval", "1s", *more]
    return proxy


async def ask(served: ServeProcess, upstream: RawUpstream, *headers: str, times: int = 1) -> None:
    """Requests of a sandbox, which the rules allow."""
    async with await visit(served, upstream) as peer:
        for _ in range(times):
            extra = "".join(f"{each}\r\n" for each in headers)
            answer = await peer.get("/echo?q=words-of-the-query", f"{NAME}:{upstream.port}", extra)
            assert answer.status == 200


def shown_by_the_kernel(served: ServeProcess) -> str:
    """The environment and the command line of the proxy."""
    of = Path(f"/proc/{served.process.pid}")
    return ((of / "environ").read_bytes() + (of / "cmdline").read_bytes()).decode()


async def test_an_exchange_is_a_span_a_line_and_a_count(tmp_path: Path, upstream: RawUpstream) -> None:
    """The span is a child of the sandbox's; the upstream gets the trace as the sandbox wrote it."""
    headers = put(tmp_path / "headers", f"authorization: Bearer {TOKEN}\n")
    headers.chmod(0o600)
    with (
        OtlpReceiver() as receiver,
        exporting(tmp_path, upstream, receiver, "--otlp-headers-file", str(headers)) as served,
    ):
        await ask(served, upstream, f"traceparent: {PARENT}", f"tracestate: {STATE}")
        assert (await denied(served, upstream, UNKNOWN)).status == 403
        allowed, refused = await asyncio.to_thread(
            receiver.until, lambda r: r.spans if len(r.spans) == 2 else []
        )
        assert (allowed.trace_id.hex(), allowed.parent_span_id.hex()) == (TRACE, SPAN)
        assert refused.trace_id.hex() not in (TRACE, "")
        assert refused.parent_span_id == b""
        assert upstream.requests[0].headers("traceparent") == [PARENT]
        assert upstream.requests[0].headers("tracestate") == [STATE]
        # What it says.
        found = told(allowed.attributes)
        assert allowed.name == found["http.request.method"] == "GET"
        assert found["server.address"] == NAME
        assert found["http.response.status_code"] == 200
        assert found["egress.verdict"] == "allow"
        assert found["egress.rule"] == f"{NAME}#host"
        assert found["egress.sandbox"] == "default"
        assert found["egress.secrets"] == 1
        assert 0 < found["egress.first_byte_us"] < (allowed.end_time_unix_nano - allowed.start_time_unix_nano)
        assert told(refused.attributes)["egress.code"] == "host.unknown"
        assert {each.key for span in (allowed, refused) for each in span.attributes} <= {
            each.name for each in SPAN_ATTRIBUTES
        }
        # The line of the log, byte for byte.
        (line,) = served.recorded("exchange")[:1]
        assert line["request"] == found["egress.request"]
        texts = {
            json.dumps(each, separators=(",", ":"), ensure_ascii=True) for each in served.records("exchange")
        }
        exported = await asyncio.to_thread(
            receiver.until, lambda r: [x for x in r.records if x.event_name == "egress.exchange"]
        )
        assert {each.body.string_value for each in exported} <= texts
        # The numbers that Prometheus would read.
        sent = await asyncio.to_thread(receiver.until, lambda r: r.metrics.get("egress_refusals"))
        (point,) = sent.sum.data_points
        assert told(point.attributes) == {"code": "host.unknown", "profile": ""}
        assert point.as_int == 1
        assert receiver.metrics["egress_added_seconds"].histogram.data_points[0].count >= 1
        # Who asks for it.
        assert {head["authorization"] for head in receiver.heads} == {f"Bearer {TOKEN}"}
        assert TOKEN not in await asyncio.to_thread(shown_by_the_kernel, served)
        # What never leaves.
        everything = b"".join(receiver.bodies)
        assert b"rule.allowed" in everything, "the control"
        for never in (SECRET, "words-of-the-query", "state-of-a-sandbox", TOKEN):
            assert never.encode() not in everything


async def test_a_collector_that_hangs_holds_up_neither_requests_nor_the_end(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    with (
        OtlpReceiver(answer=lambda: None) as receiver,
        exporting(tmp_path, upstream, receiver, "--otlp-rate", "20") as served,
    ):
        await ask(served, upstream)
        await asyncio.to_thread(receiver.until, lambda r: r.paths)
        await ask(served, upstream, times=60)
        found = read_prometheus(await scraped(served))
        assert found["requests_total"][NAME, f"{NAME}#host", "allow"] == 61
        # The rate of a sandbox: 20 in a second, and as many more at once.
        assert found["telemetry_dropped_total"]["rate", "traces"] > 0
        assert found["telemetry_exported_total"]["traces",] == 0
        served.signal(signal.SIGTERM)
        assert await asyncio.to_thread(served.ended) == 0


async def test_a_collector_that_comes_back_gets_what_waits(tmp_path: Path, upstream: RawUpstream) -> None:
    answers = iter([(503, {}, b""), (429, {"retry-after": "0"}, b"")])
    with (
        OtlpReceiver(answer=lambda: next(answers, OK)) as receiver,
        exporting(tmp_path, upstream, receiver, "--otlp-signals", "traces") as served,
    ):
        await ask(served, upstream)
        await asyncio.to_thread(receiver.until, lambda r: len(r.paths) == 3)
        assert {span.span_id for span in receiver.spans} == {receiver.spans[0].span_id}, "one span, sent anew"
        found = read_prometheus(await scraped(served))
        for _ in range(50):
            if found["telemetry_exported_total"]["traces",]:
                break
            found = read_prometheus(await scraped(served))
        assert found["telemetry_exported_total"] == {("traces",): 1}
        assert sum(found["telemetry_dropped_total"].values()) == 0
        assert set(receiver.paths) == {"/v1/traces"}
