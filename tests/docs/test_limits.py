"""Every bound is in the reference: one that is added to the code has to be told, or left out by name."""

from __future__ import annotations

import re

import pytest

from egress.errors import CODES
from egress.exchange import AnswerHead, CutExchange, Response
from egress.proxy.settings import Settings
from scripts.limits_reference import SECTIONS, UNTOLD, known
from scripts.pages import ROOT
from tests.unit.exchange.sample import running

ROWS = {name: row for rows in SECTIONS.values() for name, row in rows.items()}


def test_every_bound_of_the_code_has_a_row_or_is_left_out_by_name() -> None:
    assert sorted(known() - ROWS.keys() - UNTOLD) == []
    assert sorted(UNTOLD - known()) == [], "these are none any more"
    assert sorted(UNTOLD & ROWS.keys()) == []


def test_codes_and_settings_of_the_table_are_there() -> None:
    settings = {name.replace("_", "-") for name in Settings.model_fields}
    for _, _, beyond, setting in ROWS.values():
        assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", beyond)) <= CODES.keys()
        assert set(re.findall(r"`--([a-z-]+)`", setting)) <= settings


@pytest.mark.parametrize("name", ["1,536", "128", "200 to 599", "`limit.exchanges`", "1,000"])
def test_bounds_that_users_have_met_are_told(name: str) -> None:
    assert name in (ROOT / "docs/reference/limits.md").read_text(encoding="utf-8")


def test_the_status_is_bounded_as_it_is_told() -> None:
    for status in (200, 599):
        assert isinstance(running().respond(Response(status, "", ())), AnswerHead)
    for status in (199, 600, 999):
        assert running().respond(Response(status, "", ())) == CutExchange("upstream.malformed")
