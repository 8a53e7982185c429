"""CSV that a spreadsheet only shows, whatever a sandbox wrote into it."""

from __future__ import annotations

import csv
import json

import pytest

from egress.review.entry import parse
from egress.review.spreadsheet import harmless, lines_as_csv, rows_as_csv


def test_rows_are_lines_of_cells() -> None:
    assert rows_as_csv([["a", 1], ['b"c', 2]]) == 'a,1\n"b""c",2\n'


@pytest.mark.parametrize("separator", [",", ";", "|", "\t", " "])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize(
    "text", ["{}1+1", "/x;{}1+1;y", '/x;"{}1+1"', "/x|{}1", "/x,{}1", "/x\t{}1", "/x; {}1", '/x;"" {}1;{}2']
)
def test_no_spreadsheet_finds_a_formula_wherever_it_cuts(separator: str, sign: str, text: str) -> None:
    path = json.dumps(text.format(sign, sign))
    raw = f'{{"seq":1,"time":"2026-03-01T09:30:00.000000Z","event":"exchange","path":{path},"mac":""}}'
    written = lines_as_csv([parse(raw.encode())], with_head=False)
    found = [cell for row in csv.reader([written], delimiter=separator) for cell in row]
    assert not [cell for cell in found if cell.lstrip().startswith(sign)]


def test_a_sign_that_begins_no_cell_stays_as_it_is() -> None:
    for text in ("/a-b/@scope/x=1", "/a;b=c", "2026-03-01", "a,b|c"):
        assert harmless(text) == text
