"""The options that say which lines: what people type, as filters."""

from __future__ import annotations

import pytest

from egress.cli import rule_options
from egress.cli.log.filter_options import filters, moment
from egress.errors import UsageError
from egress.review import Filters

NOTHING = {
    "sandbox": "", "host": "", "verdict": "", "secret": "", "status": "", "rule": "",
    "method": "", "code": "", "event": "", "grep": "", "since": "", "until": "",
}  # fmt: skip


def test_nothing_asked_is_no_filter() -> None:
    assert filters(**NOTHING) == Filters()


def test_spellings_are_made_one() -> None:
    asked = {**NOTHING, "verdict": "Denied", "host": "API.Example", "method": "get", "status": "5XX"}
    assert filters(**asked) == Filters(verdict="deny", host="api.example", method="GET", status="5xx")


def test_moments_are_counted_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_options, "now", lambda: 10_000)
    assert moment("1h", "--since") == 6400 * 10**6
    assert moment("", "--since") is None
    with pytest.raises(UsageError, match="--since: this is not a moment"):
        moment("soon", "--since")
    same = {**NOTHING, "since": "1h", "until": "1h"}
    with pytest.raises(UsageError, match="not before"):
        filters(**same)
