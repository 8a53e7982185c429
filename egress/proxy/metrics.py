"""Metrics of the proxy, and the text that Prometheus reads.

Every request is counted, so counting is a few steps on plain dicts and lists, and text is made only on a
scrape. Labels come from the rules and from our own codes alone: the entry and never the requested host, no
path, no sandbox, no text that a client or an upstream chose. So the number of series is bounded by the
entries, rules and secrets of the policy. A series whose rule is gone is dropped on a reload or a scrape.

Only the event loop's thread may use this module. No value of a secret gets here: no field holds one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from egress.errors import CODES, FAILED_CODES
from egress.exchange import ExchangeRecord
from egress.relay.ports import ExchangeTiming
from egress.rules.decide.policy import Policy
from egress.types import Verdict

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER_LABEL: Final = "other"
"""Stands for every code that is not listed."""
UPSTREAM_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ADDED_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_MICROSECOND = 1e-6
_CODES = frozenset({*CODES, "lane.ended", "client.left"})
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

type Sample = tuple[str, str, float]
"""The end of the name, the labels as they are written, and the value."""


class Histogram:
    """How often something took how long, in seconds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def samples(self, labels: str = "") -> Iterator[Sample]:
        """Each bucket with all that is below it, as Prometheus wants them."""
        below, before = 0, f"{labels}," if labels else ""
        for bound, count in zip(_named(self.bounds), self.counts, strict=True):
            below += count
            yield "_bucket", f'{before}le="{bound}"', below
        yield "_sum", labels, self.total
        yield "_count", labels, below


@dataclass(frozen=True, slots=True)
class ProxyStatus:
    """State that is looked up on a scrape instead of being counted."""

    version: str
    policy: Policy
    """The policy of the rule files."""
    is_ready: bool = True
    began: int = 0
    """When the proxy started, in seconds of UTC."""
    loaded: int = 0
    """When its rules came into force."""
    reloads: Mapping[str, int] = field(default_factory=dict)
    sandboxes: int = 0
    connections: int = 0
    """Client connections in the ingress."""
    lanes: Mapping[str, int] = field(default_factory=dict)
    """Connections that are carried, by lane."""
    available: Mapping[str, bool] = field(default_factory=dict)
    """By secret: its source can be read."""
    ages: Mapping[str, float] = field(default_factory=dict)
    """By cached secret: seconds since its source gave or confirmed it."""
    is_writable: bool = True
    """The audit log takes lines."""
    lag: float = 0.0
    """Seconds since the kernel had every line of it."""
    unrecorded: int = 0
    newest: int | None = None
    """The number of its newest line, where that is known."""
    is_damaged: bool | None = None
    """The start found the log damaged; None if unknown."""


class Metrics:
    """The counts of one proxy."""

    __slots__ = (
        "_added",
        "_cut",
        "_failed",
        "_injected",
        "_refused",
        "_requests",
        "_scrubbed",
        "_tunnels",
        "_upstream",
        "flushed",
    )

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, str, str], int] = {}
        """By verdict, entry, and the two parts of a rule's name: to join them is for later."""
        self._refused: dict[str, int] = {}
        self._cut: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._tunnels: dict[str, int] = {}
        self._injected: dict[str, int] = {}
        self._scrubbed: dict[str, int] = {}
        self._upstream: dict[str, Histogram] = {}
        self._added = Histogram(ADDED_BUCKETS)
        self.flushed: float | None = None
        """When the kernel last had every line of the audit log, in monotonic seconds."""

    # Counting: with every request ---------------------------------------------------------------

    def exchange(
        self, entry: str | None, record: ExchangeRecord, timing: ExchangeTiming, connecting: int
    ) -> None:
        """Count an exchange of this entry; `connecting` are the microseconds for the connection it made."""
        entry = entry or ""
        rule = record.rule
        key = (record.verdict, entry, "", "") if rule is None else (record.verdict, entry, rule.key, rule.id)
        requests = self._requests
        # A key that is there is the usual case, and then this is the shortest way.
        try:
            requests[key] += 1
        except KeyError:
            requests[key] = 1
        self._ended(record.verdict, record.code)
        for secret, _ in record.injected:
            self._injected[secret] = self._injected.get(secret, 0) + 1
        for secret, hits in record.scrubbed:
            self._scrubbed[secret] = self._scrubbed.get(secret, 0) + hits
        sent = timing.sent
        if sent:
            waited = timing.body_wait + connecting * _MICROSECOND
            self._added.add(max(0.0, sent - timing.began - waited))
            if timing.answered:
                self._answered(entry, timing.answered - sent)

    def _answered(self, entry: str, seconds: float) -> None:
        histogram = self._upstream.get(entry)
        if histogram is None:
            histogram = self._upstream[entry] = Histogram(UPSTREAM_BUCKETS)
        histogram.add(seconds)

    def refused(self, code: str) -> None:
        """Count a request, a connection or a name that was refused."""
        self._refused[code] = self._refused.get(code, 0) + 1

    def tunnel(self, entry: str | None, verdict: Verdict = Verdict.ALLOW, code: str = "") -> None:
        """Count a tunnel that has ended; one that was never joined to its upstream is refused."""
        self._ended(verdict, code)
        if verdict is not Verdict.DENY:
            entry = entry or ""
            self._tunnels[entry] = self._tunnels.get(entry, 0) + 1

    def _ended(self, verdict: Verdict, code: str) -> None:
        """Count an end that is none of a complete exchange, by its reason."""
        if verdict is Verdict.DENY:
            self.refused(code)
        elif verdict is Verdict.CUT:
            self._cut[code] = self._cut.get(code, 0) + 1
        elif code in FAILED_CODES:
            self._failed[code] = self._failed.get(code, 0) + 1

    # Telling: when somebody asks ----------------------------------------------------------------

    def keep(self, policy: Policy) -> None:
        """Forget what these rules do not name."""
        entries = [*policy.entries.values(), *(network.entry for network in policy.networks)]
        keys = {"", *(entry.key for entry in entries)}
        lists = [policy.deny, *(rules for entry in entries for rules in (entry.allow, entry.deny))]
        names = {("", ""), *((rule.ref.key, rule.ref.id) for rules in lists for rule in rules)}
        # Series of deleted rules would otherwise be exported until the restart.
        self._requests = {
            key: count for key, count in self._requests.items() if key[1] in keys and key[2:] in names
        }
        self._tunnels = {key: count for key, count in self._tunnels.items() if key in keys}
        self._upstream = {key: times for key, times in self._upstream.items() if key in keys}
        self._injected = _of(self._injected, policy.secrets)
        self._scrubbed = _of(self._scrubbed, policy.secrets)

    def text(self, now: ProxyStatus) -> str:
        """Return the metrics in the text format of Prometheus."""
        self.keep(now.policy)
        lines = [line for family in (*self._counted(), *_status_families(now)) for line in family.lines()]
        return "\n".join([*lines, ""])

    def _counted(self) -> Iterator[MetricFamily]:
        # Labels are those of the rules alone: a host or a path would let clients make series without end.
        yield MetricFamily(
            "requests_total",
            "counter",
            "Requests, by verdict, entry of the rules and rule.",
            (
                ("", _labels(verdict=verdict, entry=entry, rule=f"{key}#{rule}" if rule else ""), count)
                for (verdict, entry, key, rule), count in self._requests.items()
            ),
        )
        yield _by(
            "refusals_total",
            "Requests, connections and names that were refused.",
            "code",
            _listed(self._refused),
        )
        yield _by(
            "cuts_total",
            "Requests and tunnels that were stopped after a part had been sent.",
            "code",
            _listed(self._cut),
        )
        yield _by(
            "failures_total",
            "Requests and tunnels that were allowed, and whose upstream failed.",
            "code",
            self._failed,
        )
        yield _by("tunnels_total", "Tunnels that have ended.", "entry", self._tunnels)
        yield _by("injections_total", "Requests that were sent with a secret.", "secret", self._injected)
        yield _by("scrubbed_total", "Places in answers where a secret was found.", "secret", self._scrubbed)
        yield MetricFamily(
            "upstream_seconds",
            "histogram",
            "From a request's head sent to the head of its answer.",
            (s for entry, times in self._upstream.items() for s in times.samples(_labels(entry=entry))),
        )
        # Only the time that the proxy itself adds: name, connection and TLS depend on the upstream, and a
        # body that is searched before the head leaves depends on the client.
        yield MetricFamily(
            "added_seconds",
            "histogram",
            "From a request's head read to its head sent, without name, connection, TLS and body.",
            self._added.samples(),
        )


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Samples of one name."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the family; none without a sample."""
        name = f"egress_{self.name}"
        lines = [
            f"{name}{end}{{{labels}}} {_number(n)}" if labels else f"{name}{end} {_number(n)}"
            for end, labels, n in self.samples
        ]
        if lines:
            yield f"# HELP {name} {self.help}"
            yield f"# TYPE {name} {self.kind}"
            yield from lines


def _status_families(now: ProxyStatus) -> Iterator[MetricFamily]:
    yield MetricFamily("info", "gauge", "The version that runs.", [("", _labels(version=now.version), 1)])
    yield _gauge("ready", "Whether it can serve.", now.is_ready)
    yield _gauge("start_time_seconds", "When it was started.", now.began)
    yield _gauge("rules_loaded_time_seconds", "When its rules came into force.", now.loaded)
    yield _by("reloads_total", "Reloads of the rules.", "result", now.reloads)
    yield _gauge("sandboxes", "Sandboxes that it serves.", now.sandboxes)
    yield _gauge("connections", "Connections of clients.", now.connections)
    yield _by("carried", "Connections that are carried now.", "lane", now.lanes, "gauge")
    yield _by("secret_available", "Whether its source gives the secret.", "secret", now.available, "gauge")
    yield _by("secret_age_seconds", "Since its source gave or confirmed it.", "secret", now.ages, "gauge")
    yield _gauge("audit_writable", "Whether the audit log takes lines.", now.is_writable)
    yield _gauge("audit_lag_seconds", "Since every line of the audit log was written.", now.lag)
    yield MetricFamily("audit_unrecorded_total", "counter", "Unlogged events.", [("", "", now.unrecorded)])
    if now.newest is not None:
        yield _gauge("audit_newest_line", "The number of the newest line.", now.newest)
    if now.is_damaged is not None:
        damaged = "Whether the start found the end of the audit log damaged; later damage is not looked for."
        yield _gauge("audit_damaged", damaged, now.is_damaged)


def _gauge(name: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", text, [("", "", value)])


def _by(name: str, text: str, label: str, counts: Mapping[str, float], kind: str = "counter") -> MetricFamily:
    return MetricFamily(
        name, kind, text, [("", _labels(**{label: key}), counts[key]) for key in sorted(counts)]
    )


def _listed(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by code. Unlisted codes share a label, so that the number of series stays bounded."""
    found: dict[str, int] = {}
    for code, count in counts.items():
        listed = code if code in _CODES else OTHER_LABEL
        found[listed] = found.get(listed, 0) + count
    return found


def _of(counts: dict[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: counts[name] for name in names if name in counts}


def _labels(**labels: str) -> str:
    return ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()])


@cache
def _named(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*map(_number, bounds), "+Inf")


def _number(value: float) -> str:
    """As short as it gets: a count has no fraction, and truth is 1."""
    whole = int(value)
    return str(whole) if value == whole else repr(value)
