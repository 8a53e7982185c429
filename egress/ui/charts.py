"""Charts, drawn here: where each bar stands, for a template that writes the SVG. Pure.

Coordinates are numbers and never texts of a line, and colours are classes of the style sheet: the policy
of the page forbids a style in the markup. A chart has no text in it, so that it may be stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from egress.review import TrafficTotals, timestamps
from egress.ui import formatting

WIDTH, HEIGHT = 600, 100
GAP = 0.18
"""The part of a step that stays empty."""

Steps = Sequence[tuple[int, TrafficTotals]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle; `part` is the class that colours it."""

    x: float
    y: float
    width: float
    height: float
    part: str


@dataclass(frozen=True, slots=True)
class Column:
    """One step of time: its bars, what is said of it, and from when to when."""

    x: float
    width: float
    bars: tuple[Bar, ...]
    title: str
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a template needs it."""

    name: str
    total: str
    top: str
    """What the full height stands for."""
    first: str
    last: str
    columns: tuple[Column, ...]
    parts: tuple[tuple[str, str], ...]
    """The class and the meaning of each colour."""


Values = Callable[[TrafficTotals], tuple[int, ...]]


def charts(steps: Steps, total: TrafficTotals) -> tuple[Chart, ...]:
    """Requests, denials, bytes and durations over time."""
    if not steps:
        return ()
    number, size, took = formatting.number, formatting.size, formatting.duration
    moved = size(total.bytes_up + total.bytes_down)
    middle = f"{took(total.p50_us) or '0'} in the middle"
    return (
        _chart("Requests", number(total.requests), steps, ("allow", "deny"), _requests, number),
        _chart("Denials", number(total.denied), steps, ("deny",), lambda n: (n.denied,), number),
        _chart("Bytes", moved, steps, ("down", "up"), lambda n: (n.bytes_down, n.bytes_up), size),
        _chart("Latency", middle, steps, ("p50", "p95"), _latency, took),
    )


def requests(steps: Steps, total: TrafficTotals) -> Chart | None:
    """The first of them alone."""
    found = charts(steps, total)
    return found[0] if found else None


MEANINGS = {
    "allow": "allowed",
    "deny": "denied",
    "down": "to sandboxes",
    "up": "from sandboxes",
    "p50": "half took less",
    "p95": "95 % took less",
}


def _requests(of: TrafficTotals) -> tuple[int, ...]:
    return of.requests - of.denied, of.denied


def _latency(of: TrafficTotals) -> tuple[int, ...]:
    return of.p50_us, max(of.p95_us - of.p50_us, 0)


def _chart(
    name: str, total: str, steps: Steps, parts: tuple[str, ...], values: Values, text: Callable[[int], str]
) -> Chart:
    rows = [values(numbers) for _, numbers in steps]
    top = max((sum(row) for row in rows), default=0)
    step = steps[1][0] - steps[0][0] if len(steps) > 1 else 60_000_000
    width = WIDTH / len(steps)
    columns = []
    for place, ((moment, _), row) in enumerate(zip(steps, rows, strict=True)):
        said = ", ".join(
            f"{text(v) or 0} {MEANINGS[part]}" for v, part in zip(_told(name, row), parts, strict=True)
        )
        title = f"{formatting.when(moment)} UTC: {said}"
        bars = tuple(_stack(place * width, width, row, parts, top))
        columns.append(
            Column(_round(place * width), _round(width), bars, title, _stamp(moment), _stamp(moment + step))
        )
    return Chart(
        name,
        total,
        text(top) or "0",
        formatting.when(steps[0][0]),
        formatting.when(steps[-1][0] + step),
        tuple(columns),
        tuple((part, MEANINGS[part]) for part in parts),
    )


def _told(name: str, row: tuple[int, ...]) -> tuple[int, ...]:
    """The values as people mean them: what is stacked on another one is more than its own height."""
    return (row[0], row[0] + row[1]) if name == "Latency" else row


def _stack(x: float, width: float, row: tuple[int, ...], parts: tuple[str, ...], top: int) -> Iterable[Bar]:
    below = 0.0
    for value, part in zip(row, parts, strict=True):
        if value <= 0 or not top:
            continue
        # What is there is seen, however little it is.
        height = min(max(value / top * HEIGHT, 1.5), HEIGHT - below)
        below += height
        inner = width * (1 - GAP)
        yield Bar(_round(x + width * GAP / 2), _round(HEIGHT - below), _round(inner), _round(height), part)


def _round(value: float) -> float:
    return round(value, 2)


def _stamp(moment: int) -> str:
    # To the second, as `since` and `until` are typed; steps are whole seconds or more.
    return timestamps.format_moment(moment)
