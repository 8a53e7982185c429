"""`egress budget` as it is typed. A proxy that runs is asked in tests/proxy/control/test_budget_states.py."""

from __future__ import annotations

import json

import pytest

from egress.cli import budget as command
from egress.cli import proxy_choice
from egress.cli.main import main
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD as USD
from egress.unix.http_connection import JsonAnswer

Captured = pytest.CaptureFixture[str]


def account(**changes: object) -> dict[str, object]:
    return {
        "budget": "agents",
        "scope": "box",
        "unit": "usd",
        "window": 3600,
        "limit": 5 * USD,
        "spent": USD // 3,
        "reserved": USD,
        "reopens": 0,
        **changes,
    }


TOKENS = account(budget="team", scope="*", unit="tokens", window=0, limit=100, spent=100, reserved=0)
PRICES = {"date": "2026-11-20", "digest": "abc", "models": 2}


def answering(monkeypatch: pytest.MonkeyPatch, *accounts: dict[str, object], lost: str | None = None) -> None:
    body = {"budgets": list(accounts), "lost": lost, "prices": PRICES}
    monkeypatch.setattr(proxy_choice, "ask_proxy", lambda *_: (200, body))


def told(capsys: Captured) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_each_account_is_a_row_and_dollars_are_rounded_up(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, account(), account(scope="bay", spent=5 * USD, reopens=70))
    assert main(["budget"]) == 1
    assert told(capsys) == [
        "BUDGET WHO SPENT RESERVED LIMIT REOPENS",
        "agents box $0.3334 $1 $5 an hour",
        "agents bay $5 $1 $5 an hour in 70 s",
        "prices of 2026-11-20 (abc)",
    ]


def test_the_status_says_whether_a_limit_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, account(), TOKENS)
    assert main(["budget", "agents"]) == 0
    assert "team" not in capsys.readouterr().out
    assert main(["budget", "team"]) == 1
    assert "team all 100 tokens 0 tokens 100 tokens in total" in told(capsys)


def test_programs_get_every_amount(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    answering(monkeypatch, account())
    assert main(["budget", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budgets"] == [account()]


def test_nothing_was_counted_yet_or_the_journal_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, lost="2026-11-20T00:00:00Z")
    assert main(["budget"]) == 0
    lost, nothing = told(capsys)
    assert "the journal was lost at 2026-11-20T00:00:00Z" in lost
    assert "--accept-loss" in lost
    assert nothing == "no call has counted for a budget yet"


@pytest.mark.parametrize(
    ("was_lost", "said"), [(True, "accounts begin empty"), (False, "the journal was not lost")]
)
def test_a_loss_is_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, was_lost: bool, said: str
) -> None:
    monkeypatch.setattr(command, "ask_proxy", lambda *_: JsonAnswer(200, {"accepted": was_lost}))
    assert main(["budget", "--accept-loss"]) == 0
    assert told(capsys) == [said]


def test_a_refusal_of_the_proxy_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(
        command, "ask_proxy", lambda *_: JsonAnswer(503, {"error": "the disk is full", "hint": "x"})
    )
    assert main(["budget", "--accept-loss"]) != 0
    assert "the disk is full" in capsys.readouterr().err
