"""The journal of the budgets: what survives an end, and what is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.audit import budget_journal
from egress.audit.budget_journal import JOURNAL_NAME, KEPT_NAME, BudgetJournal
from egress.budgets.budget_desk import BudgetJournalError
from egress.budgets.ledger import Amounts, Ledger
from tests.unit.budgets.specs import tokens

NOW = 1_000_000 * 60
BUDGET = tokens(100)


def room(ledger: Ledger, now: int = NOW) -> int | None:
    return ledger.room([(BUDGET, "s")], "tokens", now)


def take(ledger: Ledger, amount: int) -> int:
    number = ledger.reserve([(BUDGET, "s")], Amounts(tokens=amount), NOW)
    assert isinstance(number, int)
    return number


def test_vector_20_what_was_spent_and_what_was_on_its_way_count_after_a_restart(tmp_path: Path) -> None:
    first = BudgetJournal(tmp_path)
    ledger = first.open(NOW)
    ledger.settle(take(ledger, 50), Amounts(tokens=20), NOW)
    take(ledger, 30)
    first.close()
    for _ in range(3):
        again = BudgetJournal(tmp_path)
        assert room(again.open(NOW)) == 50
        again.close()
    assert (tmp_path / JOURNAL_NAME).stat().st_mode & 0o777 == 0o600


def test_without_a_call_there_is_no_file(tmp_path: Path) -> None:
    BudgetJournal(tmp_path).open(NOW)
    assert list(tmp_path.iterdir()) == []


def remove(path: Path) -> None:
    path.unlink()


def spoil(path: Path) -> None:
    path.write_bytes(b"{}x\n" + path.read_bytes())


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [remove, spoil, empty])
def test_a_lost_journal_counts_as_full(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    first = BudgetJournal(tmp_path)
    take(first.open(NOW), 5)
    first.close()
    harm(tmp_path / JOURNAL_NAME)
    for _ in range(2):
        ledger = BudgetJournal(tmp_path).open(NOW)
        assert room(ledger) == 0
        assert room(ledger, NOW + 3600) == 100


def test_a_line_without_its_end_was_never_acted_on(tmp_path: Path) -> None:
    first = BudgetJournal(tmp_path)
    take(first.open(NOW), 5)
    first.close()
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(path.read_bytes() + b'{"kind":"reserve","call":9')
    assert room(BudgetJournal(tmp_path).open(NOW)) == 95


def test_a_long_journal_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_journal, "MAX_JOURNAL_BYTES", 2000)
    journal = BudgetJournal(tmp_path)
    ledger = journal.open(NOW)
    for _ in range(50):
        ledger.settle(take(ledger, 3), Amounts(tokens=1), NOW)
    held = take(ledger, 5)
    assert held
    assert (tmp_path / JOURNAL_NAME).stat().st_size < 4000
    assert room(ledger) == 45
    journal.close()
    assert room(BudgetJournal(tmp_path).open(NOW)) == 45


def test_a_journal_that_cannot_be_written_is_told_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = BudgetJournal(tmp_path)
    ledger = journal.open(NOW)
    take(ledger, 5)
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    with pytest.raises(BudgetJournalError, match=JOURNAL_NAME):
        take(ledger, 7)
    assert room(ledger) == 95
    monkeypatch.setattr(os, "write", write)
    take(ledger, 10)
    journal.close()
    assert room(BudgetJournal(tmp_path).open(NOW)) == 85


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / KEPT_NAME).touch()
    (tmp_path / JOURNAL_NAME).mkdir()
    with pytest.raises(BudgetJournalError):
        BudgetJournal(tmp_path).open(NOW)


def test_a_journal_of_accounts_without_effect_is_not_lost(tmp_path: Path) -> None:
    first = BudgetJournal(tmp_path)
    ledger = first.open(NOW)
    ledger.settle(take(ledger, 5), Amounts(), NOW)
    first.close()
    for _ in range(3):
        again = BudgetJournal(tmp_path)
        assert room(again.open(NOW)) == 100
        again.close()
    assert (tmp_path / JOURNAL_NAME).stat().st_size
