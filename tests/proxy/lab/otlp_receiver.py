"""A collector of the tests: it takes OTLP over HTTP, decodes each message, and keeps what it was sent.

It can be told to fail: by a status, by hanging, by closing, or with a reply that never ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

type _Request = type[ExportTraceServiceRequest | ExportMetricsServiceRequest | ExportLogsServiceRequest]
_REQUESTS: Final[dict[str, _Request]] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}
_WAIT_TIMEOUT: Final = 30.0

type Answer = tuple[int, dict[str, str], bytes]
OK: Final[Answer] = (200, {"content-type": "application/x-protobuf"}, b"")


@dataclass
class OtlpReceiver:
    """Listens on a port of this machine, from `with` to its end."""

    answer: Callable[[], Answer | None] = lambda: OK
    """Makes the answer to each request; None leaves it without one until the receiver ends."""
    heads: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.paths.append(self.path)
                receiver.heads.append({name.lower(): value for name, value in self.headers.items()})
                receiver.bodies.append(body)
                if (request := _REQUESTS.get("/v1/" + self.path.rpartition("/")[2])) is not None:
                    receiver.messages.append(request.FromString(body))
                answer = receiver.answer()
                if answer is None:
                    receiver.ended.wait()
                    self.close_connection = True
                    return
                status, headers, reply = answer
                self.send_response(status)
                for name, value in {"content-length": str(len(reply)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing: what failed is seen by who waits for it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    # What it was sent

    @property
    def spans(self) -> list[Span]:
        traces = (each for each in self.messages if isinstance(each, ExportTraceServiceRequest))
        return [span for t in traces for r in t.resource_spans for s in r.scope_spans for span in s.spans]

    @property
    def records(self) -> list[LogRecord]:
        logs = (each for each in self.messages if isinstance(each, ExportLogsServiceRequest))
        return [
            record for g in logs for r in g.resource_logs for s in r.scope_logs for record in s.log_records
        ]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The newest of each name."""
        sent = (each for each in self.messages if isinstance(each, ExportMetricsServiceRequest))
        return {
            metric.name: metric
            for m in sent
            for r in m.resource_metrics
            for s in r.scope_metrics
            for metric in s.metrics
        }

    def until[Found](self, look: Callable[[Self], Found]) -> Found:
        """Wait until there is something."""
        end = time.monotonic() + _WAIT_TIMEOUT
        while not (found := look(self)):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain; there are {len(self.messages)} messages")
            time.sleep(0.02)
        return found


def told(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Attributes as a dict of plain values."""
    found: dict[str, Any] = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = getattr(each.value, kind) if kind else None
    return found
