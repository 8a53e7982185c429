"""The text that Prometheus reads, version 0.0.4 of its format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from egress.telemetry.metric_families import METRIC_PREFIX, HistogramValue, Labels, MetricFamily, MetricValue

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(families: Iterable[MetricFamily]) -> str:
    """Return the text of these families; one without a point is left out."""
    lines = [line for family in families if family.points for line in _lines(family)]
    return "\n".join([*lines, ""])


def _lines(family: MetricFamily) -> Iterator[str]:
    name = METRIC_PREFIX + family.name
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {family.kind}"
    for labels, value in family.points:
        for end, written, number in _samples(_written(labels), value):
            yield (
                f"{name}{end}{{{written}}} {_number(number)}" if written else f"{name}{end} {_number(number)}"
            )


def _samples(labels: str, value: MetricValue) -> Iterator[tuple[str, str, float]]:
    """Yield the end of each name, the labels as they are written, and the number."""
    if not isinstance(value, HistogramValue):
        yield "", labels, value
        return
    # Each bucket with all that is below it, as Prometheus wants them.
    below, before = 0, f"{labels}," if labels else ""
    for bound, count in zip(_named(value.bounds), value.counts, strict=True):
        below += count
        yield "_bucket", f'{before}le="{bound}"', below
    yield "_sum", labels, value.total
    yield "_count", labels, below


def _written(labels: Labels) -> str:
    return ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels])


@cache
def _named(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*map(_number, bounds), "+Inf")


def _number(value: float) -> str:
    """As short as it gets: a count has no fraction, and truth is 1."""
    whole = int(value)
    return str(whole) if value == whole else repr(value)
