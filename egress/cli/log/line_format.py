"""A line of the log on a screen, as JSON and as CSV.

Whoever wrote the text in a line may want to command the terminal, the program or the spreadsheet that
shows it. `render` neutralises what a terminal would obey; `egress.review.spreadsheet` does so for formulas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from egress.cli import render
from egress.cli.render import BAD, BOLD, DIM, DOUBT, GOOD, PLAIN, Cell, Style
from egress.review import LogEntry
from egress.review.spreadsheet import lines_as_csv

STYLES: dict[str, Style] = {"allow": GOOD, "deny": BAD, "cut": BAD}
MAX_TEXT_CHARS = 120


def cells(entry: LogEntry, *, is_short: bool = False) -> list[Cell]:
    """A line as cells of a table; the short form leaves the day out."""
    verdict = entry.verdict
    time = entry.time[11:23] if is_short else f"{entry.time[:10]} {entry.time[11:19]}"
    return [
        (time, DIM),
        (entry.text("sandbox"), BOLD),
        (verdict or entry.event, STYLES.get(verdict, DOUBT)),
        _answer(entry),
        _what(entry),
        (_why(entry), DIM),
        (entry.request or entry.text("connection"), DIM),
        # Lines of versions before 0.3 name no run.
        *([(entry.text("run"), DIM)] if entry.text("run") else []),
    ]


def _answer(entry: LogEntry) -> Cell:
    status = entry.number("status")
    return (str(status), BAD if status >= 500 else PLAIN) if status else ""


def _what(entry: LogEntry) -> str:
    if entry.verdict or entry.text("host"):
        port = entry.number("port")
        where = entry.text("host") + (f":{port}" if port not in (0, 80, 443) else "")
        return _cut(f"{entry.text('method')} {where}{entry.text('path')}".strip())
    told = [f"{name} {value}" for name, value in entry.fields.items() if name not in _OWN and value]
    return _cut(", ".join(told))


_OWN = frozenset(("seq", "time", "run", "event", "mac", "sandbox", "previous", "policy", "policy_before"))


def _why(entry: LogEntry) -> str:
    parts = [entry.text("rule").rpartition("#")[2], entry.reason]
    # All pushes to a repository have one path: the ref tells them apart.
    parts += [entry.body_item]
    parts += [f"with {', '.join(entry.secrets)}"] if entry.secrets else []
    parts += [f"{entry.number('count')} times"] if entry.event == "folded" else []
    return _cut(" ".join(part for part in parts if part))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def as_json(entry: LogEntry) -> None:
    """The line as one object, as it stands in the log."""
    text = json.dumps(dict(entry.fields), ensure_ascii=True, separators=(",", ":"))
    # The one character of ASCII that JSON leaves as it is and a terminal may not.
    render.text(text.replace("\x7f", "\\u007f") + "\n")


def refuse_both(*, as_json: bool, as_csv: bool) -> None:
    """Raise `UsageError` where two forms are wanted at once."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of one thing; give one of them.")


def as_csv(entries: Sequence[LogEntry], *, with_head: bool = True) -> None:
    """Lines as CSV, with a line of names in front."""
    render.text(lines_as_csv(entries, with_head=with_head))
