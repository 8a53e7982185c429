"""From settings to an export: to a receiver, and what is refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import UnreadableError, UsageError
from egress.proxy.clock import SystemClock
from egress.telemetry.otlp_endpoint import SIGNALS, read_endpoint
from egress.telemetry.otlp_export import OtlpSettings, open_export
from egress.telemetry.telemetry_export import TelemetryExport
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.otlp_receiver import OtlpReceiver
from tests.unit.audit.sample import FACTS, RECORD

SETTINGS = OtlpSettings(read_endpoint("http://127.0.0.1:9"), SIGNALS, 100, 60)
RESOURCE = {"service.name": "egress", "service.instance.id": "run-1"}


def opened(settings: OtlpSettings) -> TelemetryExport:
    return open_export(settings, SystemClock(), "1.2.3", RESOURCE)


def test_an_exchange_arrives_with_the_resource() -> None:
    with OtlpReceiver() as receiver:
        telemetry = opened(replace(SETTINGS, endpoint=read_endpoint(receiver.url)))
        telemetry.exchange(RECORD, FACTS)
        telemetry.line(b'{"event":"stopped"}\n', "")
        telemetry.close()
    assert [span.name for span in receiver.spans] == ["GET"]
    assert [record.body.string_value for record in receiver.records] == ['{"event":"stopped"}']
    assert {head["user-agent"] for head in receiver.heads} == {"egress/1.2.3"}
    assert b"run-1" in receiver.bodies[0]


def test_only_the_signals_that_were_chosen_are_exported() -> None:
    with OtlpReceiver() as receiver:
        telemetry = opened(replace(SETTINGS, endpoint=read_endpoint(receiver.url), signals=("logs",)))
        telemetry.exchange(RECORD, FACTS)
        telemetry.line(b'{"event":"stopped"}\n', "")
        telemetry.close()
    assert receiver.paths == ["/v1/logs"]


@pytest.mark.parametrize("missing", ["opentelemetry", "google"])
def test_without_the_extra_it_does_not_start_and_names_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "egress.telemetry.otlp_messages", raising=False)
    monkeypatch.delattr("egress.telemetry.otlp_messages", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match="needs the extra `otel`") as refused:
        opened(SETTINGS)
    assert refused.value.hint == "pip install 'egress[otel]' installs what it needs"


def test_a_token_goes_to_no_collector_without_tls_unless_it_is_on_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("authorization: words-of-the-token\n", encoding="utf-8")
    file.chmod(0o600)
    with pytest.raises(UsageError, match="unencrypted") as refused:
        opened(replace(SETTINGS, endpoint=read_endpoint("http://192.0.2.1:4318"), headers_file=file))
    assert "words-of-the-token" not in f"{refused.value}{refused.value.hint}"
    for url in ("https://192.0.2.1:4318", "http://127.0.0.1:9"):
        opened(replace(SETTINGS, endpoint=read_endpoint(url), headers_file=file)).close()


def test_roots_of_its_own_are_read_before_it_starts(tmp_path: Path) -> None:
    tls = replace(SETTINGS, endpoint=read_endpoint("https://127.0.0.1:9"))
    ca = Certificates().write_ca(tmp_path / "ca.pem")
    opened(replace(tls, roots=(ca,))).close()
    with pytest.raises(UnreadableError, match="nowhere"):
        opened(replace(tls, roots=(tmp_path / "nowhere.pem",)))


def test_a_proxy_that_exports_nothing_loads_no_opentelemetry() -> None:
    """The command line loads the settings, which know what a collector is."""
    report = (
        "import sys; print({'opentelemetry', 'google'} & {name.partition('.')[0] for name in sys.modules})"
    )
    rooms = "egress.proxy.settings", "egress.telemetry.otlp_export"
    code = f"import {', '.join(rooms)}\n{report}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    loads = f"import egress.telemetry.otlp_messages\n{report}"
    done = subprocess.run([sys.executable, "-P", "-c", loads], capture_output=True, text=True, check=True)
    assert "opentelemetry" in done.stdout, "the control"
