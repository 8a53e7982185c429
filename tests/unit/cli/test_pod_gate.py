"""Tests of `egress gate`, as far as it says no before it dials; tests/proxy/test_gate.py lets it dial."""

from __future__ import annotations

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
API, PROXY = ["--blocked", "10.96.0.1:443"], ["--proxy", "10.96.0.92:3128"]


@pytest.mark.parametrize("words", [[], API, PROXY])
def test_a_gate_that_would_prove_nothing_is_refused(words: list[str], capsys: Captured) -> None:
    assert main(["gate", *words]) == 2
    assert "nothing to prove" in capsys.readouterr().err


def test_more_addresses_than_a_round_can_dial_are_refused(capsys: Captured) -> None:
    assert main(["gate", *API * 64, *PROXY]) == 2
    assert "more than 64 addresses" in capsys.readouterr().err


def test_a_name_is_refused_and_not_looked_up(capsys: Captured) -> None:
    assert main(["gate", "--blocked", "kubernetes.default:443", *PROXY]) == 2
    assert "names are not resolved here" in capsys.readouterr().err
