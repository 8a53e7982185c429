"""Columns of the index, filters, columns of CSV and stages, derived from the schema of the log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_type_hints

from egress.audit.fields import about_fields
from egress.audit.schema import ExchangeLine

Match = Literal["whole", "glob", "rule", "status", "member"]


@dataclass(frozen=True, slots=True)
class LineField:
    """A field, as the index and the filters know it."""

    name: str
    attribute: str
    """Its name in the line."""
    is_number: bool = False
    """A number, or a boolean that is kept as 0 or 1."""
    in_totals: bool = True
    """True when requests are counted by it too."""
    option: str = ""
    """The help of its filter; empty where no command has one."""
    metavar: str = ""
    match: Match = "whole"


# Derived from exchanges alone: their fields include those that other lines are searched by.
_USES: Final[dict[str, dict[str, Any]]] = {
    name: meta.extra or {} for name, meta in about_fields(ExchangeLine).items()
}


def _indexed() -> Iterator[LineField]:
    # The event and the run stand in every line, outside of the schema of its kind.
    yield LineField("event", "event", option="Lines of this kind.", metavar="EVENT")
    yield LineField("run", "run", option="Of this run.", metavar="ID")
    hints = get_type_hints(ExchangeLine)
    for attribute, use in _USES.items():
        if "index" in use:
            name = use.get("name", attribute)
            yield LineField(
                name,
                attribute,
                # SQLite compares numbers and texts differently, so the type of a column matters to filters.
                is_number=_is_number(hints[attribute]),
                in_totals=use["index"] == "totals",
                option=use.get("option", ""),
                metavar=use.get("metavar", name.upper()),
                match=use.get("match", "whole"),
            )


def _is_number(hint: Any) -> bool:  # noqa: ANN401 - what typing gives
    """Say whether a field holds a number or a boolean."""
    return bool({bool, int} & {hint, *get_args(hint)})


INDEXED_FIELDS: Final = tuple(_indexed())
"""The fields by which lines are found, in the order of the columns of the index."""
FIELDS_BY_NAME: Final = {field.name: field for field in INDEXED_FIELDS}
TOTALS_FIELDS: Final = tuple(field.name for field in INDEXED_FIELDS if field.in_totals)
"""Fields that totals are kept by."""
TEXT_FIELDS: Final = tuple(
    field.name for field in INDEXED_FIELDS if not field.is_number and field.name != "verdict"
)
"""Fields that a search for a text looks through."""
LISTED_FIELDS: Final = tuple(
    field.name for field in INDEXED_FIELDS if not field.is_number and field.match != "member"
)
"""Fields of which the values that occur can be listed."""
COUNTED_FIELDS: Final = tuple(name for name in TOTALS_FIELDS if not FIELDS_BY_NAME[name].is_number)
"""Fields that commands can count by."""
FILTER_FIELDS: Final = tuple(field for field in (*INDEXED_FIELDS[2:], *INDEXED_FIELDS[:2]) if field.option)
"""The filters that commands and the page have."""

# Listed by hand: scripts read these columns by number, so their order must not follow the schema.
_FIRST_COLUMNS = (
    *("seq", "time", "event", "sandbox", "profile", "method", "host", "port", "path", "status", "verdict"),
    *("code", "rule", "place", "secrets", "bytes_up", "bytes_down", "total_us", "connection", "request"),
)
CSV_COLUMNS: Final = (
    *_FIRST_COLUMNS,
    *(name for name, use in _USES.items() if use.get("csv") and name not in _FIRST_COLUMNS),
    "run",
)
"""The columns of CSV. A new one comes last, so that the number of a column stays what it was."""
STAGE_TITLES: Final = {name: str(use["stage"]) for name, use in _USES.items() if "stage" in use}
"""Fields that the timeline shows under a title of their own."""
