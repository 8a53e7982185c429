"""Numbers: how many requests, how many denied or cut, how many bytes, how long they took. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from egress.review.histogram import Counts, percentile


@dataclass(frozen=True, slots=True)
class TrafficTotals:
    """Sums over some lines."""

    requests: int = 0
    """Exchanges, tunnels, refused connections and names, those that were only counted included."""
    denied: int = 0
    cut: int = 0
    failed: int = 0
    """Allowed, and the upstream failed."""
    with_secret: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    p50_us: int = 0
    """Half of the exchanges and tunnels took less, within 6 %."""
    p95_us: int = 0


@dataclass(slots=True)
class TotalsBuilder:
    """Numbers as they are being added up."""

    requests: int = 0
    denied: int = 0
    cut: int = 0
    failed: int = 0
    with_secret: int = 0
    up: int = 0
    down: int = 0
    took: Counts = field(default_factory=dict)

    def add(self, other: TotalsBuilder) -> None:
        self.requests += other.requests
        self.denied += other.denied
        self.cut += other.cut
        self.failed += other.failed
        self.with_secret += other.with_secret
        self.up += other.up
        self.down += other.down
        # Counts of classes, not percentiles, are added: two percentiles cannot be combined.
        for number, count in other.took.items():
            self.took[number] = self.took.get(number, 0) + count

    def numbers(self) -> TrafficTotals:
        p50, p95 = percentile(self.took, 0.5), percentile(self.took, 0.95)
        ends = (self.denied, self.cut, self.failed, self.with_secret)
        return TrafficTotals(self.requests, *ends, self.up, self.down, p50, p95)
