"""The start of the export: from the settings, or from the standard variables if they say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.proxy.clock import SystemClock
from egress.proxy.process.telemetry_start import start_telemetry
from egress.proxy.process.wiring import open_audit
from egress.proxy.settings import read
from tests.proxy.lab.otlp_receiver import OtlpReceiver
from tests.unit.audit.sample import FACTS, OPENING, RECORD, abandon, files

VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


def test_without_a_collector_there_is_no_export_whatever_the_variables_say() -> None:
    with OtlpReceiver() as receiver:
        assert start_telemetry(read({}).values, {VARIABLE: receiver.url}, SystemClock()) is None


@pytest.mark.parametrize("has_variable", [False, True])
def test_what_the_log_records_is_exported(tmp_path: Path, has_variable: bool) -> None:
    with OtlpReceiver() as receiver:
        otlp, environ = receiver.url, {}
        if has_variable:
            otlp, environ = "environment", {VARIABLE: receiver.url}
        values = read({"otlp": otlp, "run_id": "run-1", "state_dir": str(tmp_path)}).values
        telemetry = start_telemetry(values, environ, SystemClock())
        assert telemetry is not None
        log = open_audit(values, SystemClock(), telemetry)
        log.exchange(log.begin(OPENING), RECORD, FACTS)
        log.event("stopped", reason="SIGTERM")
        log.close()
        telemetry.close()
    lines = [line.decode() for file in files(tmp_path / "audit") for line in file.read_bytes().splitlines()]
    assert [record.body.string_value for record in receiver.records] == lines
    assert [span.name for span in receiver.spans] == ["GET"]
    assert b"run-1" in receiver.bodies[0]


def test_what_a_kill_left_behind_is_exported_by_the_next_start(tmp_path: Path) -> None:
    """It is recorded while the log is opened."""
    plain = read({"state_dir": str(tmp_path)}).values
    killed = open_audit(plain, SystemClock())
    killed.sent(killed.begin(OPENING))
    abandon(killed)
    with OtlpReceiver() as receiver:
        values = read({"otlp": receiver.url, "state_dir": str(tmp_path)}).values
        telemetry = start_telemetry(values, {}, SystemClock())
        assert telemetry is not None
        log = open_audit(values, SystemClock(), telemetry)
        telemetry.close()
    log.close()
    assert [record.event_name for record in receiver.records] == ["egress.lost"]


def test_a_canary_in_a_name_is_masked_as_in_the_log(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        values = read({"otlp": receiver.url, "state_dir": str(tmp_path)}).values
        telemetry = start_telemetry(values, {}, SystemClock())
        assert telemetry is not None
        log = open_audit(values, SystemClock(), telemetry)
        log.hide = lambda _, name: name.replace("github", "***")
        log.exchange(log.begin(OPENING), RECORD, FACTS)
        log.close()
        telemetry.close()
    (span,) = receiver.spans
    assert b"api.***.com" in span.SerializeToString()
    assert not [each for each in span.attributes if each.value.string_value == "api.github.com"]


def test_variables_that_are_asked_for_and_missing_are_an_error() -> None:
    with pytest.raises(UsageError, match=VARIABLE):
        start_telemetry(read({"otlp": "environment"}).values, {}, SystemClock())
