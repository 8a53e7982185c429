"""`egress prices show`: the price that counts, and a model that has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
TEXT = """\
version: 1
prices:
  date: "2026-11-20"
  models:
    - match: "claude-*"
      per_million: { input: 0.25, output: 1.25 }
      tiers: { batch: 0.5 }
    - { match: "claude-*", valid_from: "2999-01-01", per_million: { input: 9 } }
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prices.yaml").write_text(TEXT, "utf-8")


def told(capsys: Captured) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_price_of_a_model_is_shown(capsys: Captured) -> None:
    assert main(["prices", "show", "claude-x", "prices.yaml"]) == 0
    *rows, last = told(capsys)
    assert rows == [
        'match "claude-*"',
        'per_million {input: "0.25", output: "1.25"}',
        'tiers {batch: "0.5"}',
    ]
    assert last.startswith("prices of 2026-11-20 (")


def test_a_model_without_a_price_is_told(capsys: Captured) -> None:
    assert main(["prices", "show", "gpt-x", "prices.yaml"]) == 1
    assert "no price fits gpt-x" in told(capsys)[0]
    assert main(["prices", "show", "gpt-x", "prices.yaml", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["price"] is None


def test_rules_without_prices_are_told(capsys: Captured) -> None:
    Path("none.yaml").write_text("version: 1\n", "utf-8")
    assert main(["prices", "show", "m", "none.yaml"]) == 1
    assert "the rules have no prices" in capsys.readouterr().err
