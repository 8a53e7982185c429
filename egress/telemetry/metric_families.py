"""Metrics as values: families of points, before any format. Pure.

`prometheus_text` writes them for Prometheus, `otlp_metrics` for a collector: both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

METRIC_PREFIX: Final = "egress_"

type Labels = tuple[tuple[str, str], ...]
"""Name and value of each label, in the order in which they are written."""
MetricKind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """How often something took how long, at one moment."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """How many fell up to each bound and above the one before; the last above all bounds."""
    total: float
    """Seconds of all of them."""


type MetricValue = float | HistogramValue


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Points of one name."""

    name: str
    """Without the prefix."""
    kind: MetricKind
    help: str
    points: tuple[tuple[Labels, MetricValue], ...]


def gauge(name: str, text: str, value: float) -> MetricFamily:
    """Return a family of one value that goes up and down."""
    return MetricFamily(name, "gauge", text, (((), value),))


def counter(name: str, text: str, value: float) -> MetricFamily:
    """Return a family of one value that only grows."""
    return MetricFamily(name, "counter", text, (((), value),))


def info(name: str, text: str, **labels: str) -> MetricFamily:
    """Return a family that is always 1: its labels are what it says."""
    return MetricFamily(name, "gauge", text, ((tuple(labels.items()), 1),))


def by_label(
    name: str, text: str, label: str, counts: Mapping[str, float], kind: MetricKind = "counter"
) -> MetricFamily:
    """Return a family with a point for each value of one label, sorted by it."""
    return MetricFamily(name, kind, text, tuple((((label, key),), counts[key]) for key in sorted(counts)))
