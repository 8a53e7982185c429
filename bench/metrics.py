"""What counting costs: the end of an exchange as it was without, and with it; and another way to count.

The end of an exchange is its ticket, its line and its share of the write, as in the benchmark of the audit.
Counted with prometheus-client, the same numbers take locks and look-ups by label. Prints numbers.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter
from prometheus_client import Histogram as TheirHistogram

from bench._timing import microseconds, seconds
from bench.audit import FACTS, KEY, OPENING, RECORD, MachineClock
from egress.audit import Sink
from egress.proxy.metrics import ADDED_BUCKETS, UPSTREAM_BUCKETS, Metrics
from egress.relay.ports import ExchangeTiming
from egress.rules.compile.load import RuleText, load
from egress.telemetry.prometheus_text import prometheus_text

Row = tuple[str, float, str, float | None]

ENTRY = "api.github.com"
TIMING = ExchangeTiming(began=10.0, sent=10.0004, answered=10.052, ended=10.053)
RULES = """
version: 1
secrets:
  github: {from: "env:TOKEN", hosts: [api.github.com]}
hosts:
"""
ENTRIES = 1000


def run() -> list[Row]:
    metrics = Metrics()
    count = partial(metrics.exchange, ENTRY, RECORD, TIMING, 0)
    with tempfile.TemporaryDirectory() as folder:
        sink = Sink.open(Path(folder), KEY, clock=MachineClock())
        before, after = _compared(sink, metrics)
        sink.close()
    theirs = _theirs()
    return [
        ("metrics: the end of an exchange, before", before, "us", None),
        ("metrics: the end of an exchange, counted", after, "us", None),
        ("metrics: counting alone", microseconds(count), "us", 1.0),
        ("metrics: the same with prometheus-client", microseconds(theirs), "us", None),
        (f"metrics: the text for {ENTRIES} entries", _rendered(), "ms", None),
    ]


def _compared(sink: Sink, metrics: Metrics) -> tuple[float, float]:
    """Both by turns, so that what else the machine does hits both."""

    def before() -> None:
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)

    def after() -> None:
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        took = FACTS.durations
        metrics.exchange(ENTRY, RECORD, TIMING, took.resolve + took.connect + took.tls)

    pairs = [(microseconds(before, 2000), microseconds(after, 2000)) for _ in range(3)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def _theirs() -> partial[None]:
    registry = CollectorRegistry()
    requests = Counter("requests", "-", ["verdict", "entry", "rule"], registry=registry)
    injections = Counter("injections", "-", ["secret"], registry=registry)
    upstream = TheirHistogram("upstream", "-", ["entry"], buckets=UPSTREAM_BUCKETS, registry=registry)
    added = TheirHistogram("added", "-", buckets=ADDED_BUCKETS, registry=registry)

    def count() -> None:
        requests.labels(RECORD.verdict, ENTRY, str(RECORD.rule)).inc()
        injections.labels("github").inc()
        upstream.labels(ENTRY).observe(TIMING.answered - TIMING.sent)
        added.observe(TIMING.sent - TIMING.began)

    return partial(count)


def _rendered() -> float:
    """The text where every entry was asked for, in milliseconds."""
    names = [f"api-{number}.example.com" for number in range(ENTRIES)]
    policy = load([RuleText("hosts.yaml", RULES + "".join(f"  {name}: {{}}\n" for name in names))]).policy
    if policy is None:
        raise ValueError("these rules are sound")
    metrics = Metrics()
    for name in names:
        metrics.exchange(name, RECORD, TIMING, 0)
    return seconds(lambda: prometheus_text(metrics.families(policy)), rounds=3) * 1000


if __name__ == "__main__":
    for name, value, unit, _ in run():
        print(f"{name:<50} {value:10.3f} {unit}")
