"""Starts the export of telemetry, where the settings name a collector."""

from __future__ import annotations

import os
from collections.abc import Mapping

from egress import __version__
from egress.proxy.clock import Clock
from egress.proxy.settings import Settings
from egress.telemetry.otlp_endpoint import CollectorEndpoint, endpoint_of_variables
from egress.telemetry.otlp_export import OtlpSettings, open_export
from egress.telemetry.telemetry_export import TelemetryExport


def start_telemetry(values: Settings, environ: Mapping[str, str], clock: Clock) -> TelemetryExport | None:
    """Start the export; None without a collector. Raises `EgressError` where it cannot be what was asked for.

    `environ` is read only for `--otlp environment`.
    """
    if values.otlp is None:
        return None
    endpoint = values.otlp if isinstance(values.otlp, CollectorEndpoint) else endpoint_of_variables(environ)
    settings = OtlpSettings(
        endpoint,
        values.otlp_signals,
        values.otlp_rate,
        values.otlp_interval,
        values.otlp_headers_file,
        values.otlp_ca,
        is_mounted=values.kubernetes,
    )
    return open_export(settings, clock, __version__, _resource(values))


def _resource(values: Settings) -> Mapping[str, str]:
    """Return which process this is. In a pod, the name of the machine is that of the pod."""
    return {
        "service.name": "egress",
        "service.version": __version__,
        "service.instance.id": values.run_id,
        "host.name": os.uname().nodename,
    }
