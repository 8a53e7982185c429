"""From settings to an export that runs. It loads the OpenTelemetry SDK: only a proxy that exports does."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from egress.ca.bundle import private_roots, public_roots
from egress.errors import UnreadableError, UsageError
from egress.telemetry.export_queue import ExportQueue
from egress.telemetry.export_worker import ExportWorker, SignalExport
from egress.telemetry.otlp_client import CollectorClient, collector_tls
from egress.telemetry.otlp_endpoint import CollectorEndpoint, Signal
from egress.telemetry.otlp_headers import OTLP_HEADERS_OPTION, CollectorHeaders
from egress.telemetry.telemetry_export import (
    MAX_QUEUED_BYTES,
    MAX_QUEUED_ITEMS,
    MAX_QUEUED_SNAPSHOTS,
    ExportClock,
    ExportQueues,
    TelemetryExport,
)

if TYPE_CHECKING:
    from types import ModuleType

MISSING_EXTRA: Final = "pip install 'egress[otel]' installs what it needs"


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """Where to export to, and what."""

    endpoint: CollectorEndpoint
    signals: tuple[Signal, ...]
    rate: int
    interval: float
    headers_file: Path | None = None
    roots: tuple[Path, ...] = ()
    """Certificates of authorities to trust for the collector, beside the public ones."""
    is_mounted: bool = False
    """The file with the headers is one that a cluster mounts."""


def open_export(
    settings: OtlpSettings, clock: ExportClock, version: str, resource: Mapping[str, str]
) -> TelemetryExport:
    """Start an export; `resource` says which process this is.

    Raises `UsageError` where the extra is not installed, and `EgressError` for files that cannot be used.
    """
    otlp = _load_messages()
    encoder = otlp.OtlpMessages.of(version, resource)
    queues = _queues(settings.signals)
    kinds: dict[Signal, tuple[ExportQueue[Any] | None, Callable[[list[Any]], bytes]]] = {
        "traces": (queues.traces, encoder.traces),
        "metrics": (queues.metrics, encoder.metrics),
        "logs": (queues.logs, encoder.logs),
    }
    exports = {
        signal: SignalExport(queue, encode, partial(otlp.count_rejected, signal))
        for signal, (queue, encode) in kinds.items()
        if queue is not None
    }
    worker = ExportWorker(exports, _client(settings, version), clock.monotonic)
    worker.start()
    return TelemetryExport(clock, queues, worker, settings.rate, settings.interval)


def _load_messages() -> ModuleType:
    try:
        from egress.telemetry import otlp_messages  # noqa: PLC0415 - an extra, which few have
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--otlp needs the extra `otel`: {error.name} is not installed", MISSING_EXTRA
        ) from None
    return otlp_messages


def _queues(signals: tuple[Signal, ...]) -> ExportQueues:
    return ExportQueues(
        traces=ExportQueue(MAX_QUEUED_ITEMS, MAX_QUEUED_BYTES) if "traces" in signals else None,
        metrics=ExportQueue(MAX_QUEUED_SNAPSHOTS, MAX_QUEUED_BYTES) if "metrics" in signals else None,
        logs=ExportQueue(MAX_QUEUED_ITEMS, MAX_QUEUED_BYTES) if "logs" in signals else None,
    )


def _client(settings: OtlpSettings, version: str) -> CollectorClient:
    at, file = settings.endpoint, settings.headers_file
    if file is not None and not at.is_private_channel:
        raise UsageError(
            f"the headers of {OTLP_HEADERS_OPTION} would go to {at} unencrypted",
            "name the collector with https, or one on this machine",
        )
    headers = (
        dict[str, str] if file is None else CollectorHeaders(file, is_mounted=settings.is_mounted).current
    )
    return CollectorClient(at, headers, f"egress/{version}", _tls(settings) if at.is_tls else None)


def _tls(settings: OtlpSettings) -> ssl.SSLContext:
    try:
        return collector_tls(public_roots() + b"\n" + private_roots(settings.roots))
    except ssl.SSLError:
        raise UnreadableError(
            "a file of --otlp-ca holds no certificate that can be used", "name another"
        ) from None
