"""What derives from the schema: every filter has a column, and old columns of CSV keep their place."""

from __future__ import annotations

from egress.audit.schema import ExchangeLine
from egress.review.line_fields import (
    COUNTED_FIELDS,
    CSV_COLUMNS,
    FIELDS_BY_NAME,
    FILTER_FIELDS,
    INDEXED_FIELDS,
    LISTED_FIELDS,
    TEXT_FIELDS,
    TOTALS_FIELDS,
)


def test_every_indexed_field_is_one_of_the_line() -> None:
    assert INDEXED_FIELDS[0].name == "event"
    assert [field.attribute for field in INDEXED_FIELDS[:2]] == ["event", "run"]
    assert {field.attribute for field in INDEXED_FIELDS[2:]} <= set(ExchangeLine.__struct_fields__)
    assert len(FIELDS_BY_NAME) == len(INDEXED_FIELDS)


def test_commands_filter_by_what_they_always_did() -> None:
    names = {"sandbox", "host", "verdict", "secret", "status", "rule", "method", "code", "event"}
    assert names <= {field.name for field in FILTER_FIELDS}
    assert all(field.option.endswith(".") and field.metavar for field in FILTER_FIELDS)


def test_totals_are_kept_by_what_commands_count_by() -> None:
    assert {"sandbox", "host", "rule", "secret", "verdict", "code", "event", "profile"} <= set(COUNTED_FIELDS)
    assert set(COUNTED_FIELDS) < set(TOTALS_FIELDS)
    assert not FIELDS_BY_NAME["method"].in_totals


def test_numbers_are_neither_searched_nor_listed() -> None:
    assert FIELDS_BY_NAME["status"].is_number
    assert FIELDS_BY_NAME["observed"].is_number
    assert not {"status", "observed"} & {*TEXT_FIELDS, *LISTED_FIELDS}


def test_columns_of_csv_keep_their_place() -> None:
    assert CSV_COLUMNS[:11] == (
        *(
            "seq",
            "time",
            "event",
            "sandbox",
            "profile",
            "method",
            "host",
            "port",
            "path",
            "status",
            "verdict",
        ),
    )
    assert CSV_COLUMNS[11:20] == (
        *("code", "rule", "place", "secrets", "bytes_up", "bytes_down", "total_us", "connection", "request"),
    )
