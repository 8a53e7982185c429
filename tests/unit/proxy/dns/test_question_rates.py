"""Questions a second: each sandbox has its own."""

from __future__ import annotations

import pytest

from egress.proxy.dns import question_rates
from egress.proxy.dns.question_rates import QuestionRate, QuestionRates
from tests.unit.proxy.ingress_fixture import Clock


def test_a_burst_may_come_at_once_and_the_rest_waits() -> None:
    clock = Clock()
    rate = QuestionRate(clock, per_second=10, burst=2)
    for _ in range(2):
        assert rate.wait() == 0
        rate.spend()
    assert rate.wait() == pytest.approx(0.1)
    assert not rate.is_rested
    clock.seconds += 0.1
    assert rate.wait() == 0


def test_a_sandbox_that_floods_takes_nothing_from_another() -> None:
    rates = QuestionRates(Clock(), per_second=10, burst=2)
    assert [rates.spend("loud") for _ in range(4)] == [True, True, False, False]
    assert rates.wait("loud") > 0
    assert rates.spend("quiet")


def test_sandboxes_that_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_rates, "MAX_RATES", 2)
    clock = Clock()
    rates = QuestionRates(clock, per_second=1, burst=1)
    rates.spend("one")
    clock.seconds += 5
    rates.spend("two")
    rates.spend("three")
    assert set(rates._rates) == {"two", "three"}
