"""`egress metrics` as it is typed. A proxy that runs is asked in tests/proxy/test_metrics.py."""

from __future__ import annotations

import pytest

from egress.cli import proxy_choice
from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
TEXT = "# TYPE egress_ready gauge\negress_ready 1\n"


def answering(monkeypatch: pytest.MonkeyPatch, code: int, answer: dict[str, object]) -> None:
    monkeypatch.setattr(proxy_choice, "ask_proxy", lambda *_: (code, answer))


def test_the_text_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    answering(monkeypatch, 200, {"text": TEXT})
    assert main(["metrics"]) == 0
    assert capsys.readouterr().out == TEXT


@pytest.mark.parametrize(("code", "status"), [(404, 3), (500, 1)])
def test_what_goes_wrong_is_no_metric(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, code: int, status: int
) -> None:
    answering(monkeypatch, code, {"error": "something is wrong"})
    assert main(["metrics"]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
