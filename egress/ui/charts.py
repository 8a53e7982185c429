"""Chart geometry: the position of each bar, for a template that writes the SVG. Pure.

Coordinates are numbers, never text from the log. Colours are classes of the style sheet, because the content
security policy forbids inline styles. The SVG contains no text, so the browser may stretch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from egress.review import TrafficTotals, timestamps
from egress.ui import formatting

WIDTH, HEIGHT = 600, 100
TICKS = 5
"""Moments that are named below a chart."""
GAP = 0.18
"""Share of a column that stays empty between two bars."""

Steps = Sequence[tuple[int, TrafficTotals]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle. `part` is its CSS class."""

    x: float
    y: float
    width: float
    height: float
    part: str


@dataclass(frozen=True, slots=True)
class Column:
    """The bars, tooltip and time range of one step of the time axis."""

    x: float
    width: float
    bars: tuple[Bar, ...]
    title: str
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready for a template."""

    name: str
    total: str
    top: str
    """The value at full height."""
    middle: str
    """The value at half of the height."""
    axis: tuple[str, ...]
    """Moments at equal distances below the chart, from its begin to its end."""
    columns: tuple[Column, ...]
    parts: tuple[tuple[str, str], ...]
    """CSS class and meaning of each colour."""


Values = Callable[[TrafficTotals], tuple[int, ...]]


def charts(steps: Steps, total: TrafficTotals) -> tuple[Chart, ...]:
    """Build the charts for requests, stopped requests, bytes and durations over time."""
    if not steps:
        return ()
    number, size, took = formatting.number, formatting.size, formatting.duration
    moved = size(total.bytes_up + total.bytes_down)
    median = f"p50 {took(total.p50_us) or '0'}"
    return (
        _chart("Requests", number(total.requests), steps, ("allow", "deny", "cut"), _requests, number),
        _chart("Stopped", number(total.denied + total.cut), steps, ("deny", "cut"), _stopped, number),
        _chart("Bytes", moved, steps, ("down", "up"), lambda n: (n.bytes_down, n.bytes_up), size),
        _chart("Latency", median, steps, ("p50", "p95"), _latency, took),
    )


MEANINGS = {
    "allow": "allowed",
    "deny": "denied",
    "cut": "cut",
    "down": "to sandboxes",
    "up": "from sandboxes",
    "p50": "p50",
    "p95": "p95",
}


def _requests(of: TrafficTotals) -> tuple[int, ...]:
    return of.requests - of.denied - of.cut, of.denied, of.cut


def _stopped(of: TrafficTotals) -> tuple[int, ...]:
    return of.denied, of.cut


def _latency(of: TrafficTotals) -> tuple[int, ...]:
    return of.p50_us, max(of.p95_us - of.p50_us, 0)


def _chart(
    name: str, total: str, steps: Steps, parts: tuple[str, ...], values: Values, text: Callable[[int], str]
) -> Chart:
    rows = [values(numbers) for _, numbers in steps]
    top = max((sum(row) for row in rows), default=0)
    # A single step has no neighbour to measure: a minute is the shortest step of the index.
    step = steps[1][0] - steps[0][0] if len(steps) > 1 else 60_000_000
    width = WIDTH / len(steps)
    columns = []
    for place, ((moment, _), row) in enumerate(zip(steps, rows, strict=True)):
        values_text = ", ".join(
            f"{text(v) or 0} {MEANINGS[part]}" for v, part in zip(_unstacked(name, row), parts, strict=True)
        )
        title = f"{formatting.when(moment)} UTC: {values_text}"
        bars = tuple(_stack(place * width, width, row, parts, top))
        columns.append(
            Column(_round(place * width), _round(width), bars, title, _stamp(moment), _stamp(moment + step))
        )
    first, last = steps[0][0], steps[-1][0] + step
    return Chart(
        name,
        total,
        text(top) or "0",
        text(top // 2) if top > 1 else "",
        tuple(_stamp(first + (last - first) * tick // (TICKS - 1)) for tick in range(TICKS)),
        tuple(columns),
        tuple((part, MEANINGS[part]) for part in parts),
    )


def _unstacked(name: str, row: tuple[int, ...]) -> tuple[int, ...]:
    """Return the values to print. The p95 bar holds only its distance to p50, because it is stacked on it."""
    return (row[0], row[0] + row[1]) if name == "Latency" else row


def _stack(x: float, width: float, row: tuple[int, ...], parts: tuple[str, ...], top: int) -> Iterable[Bar]:
    below = 0.0
    for value, part in zip(row, parts, strict=True):
        if value <= 0 or not top:
            continue
        # A minimum height keeps small values visible.
        height = min(max(value / top * HEIGHT, 1.5), HEIGHT - below)
        below += height
        inner = width * (1 - GAP)
        yield Bar(_round(x + width * GAP / 2), _round(HEIGHT - below), _round(inner), _round(height), part)


def _round(value: float) -> float:
    return round(value, 2)


def _stamp(moment: int) -> str:
    # Seconds are enough: a step is never shorter, and `since` and `until` are typed this way.
    return timestamps.format_moment(moment)
