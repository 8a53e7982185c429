"""The counts of a proxy.

Every request is counted, so counting is a few steps on plain dicts and lists, and families are made only when
somebody asks. Labels come from the rules and from our own codes alone: the entry and never the requested
host, no path, no sandbox, no text that a client or an upstream chose. So the number of series is bounded by
the entries, rules, secrets and profiles of the policy. A series whose rule is gone is dropped on a reload or
a scrape.

Only the event loop's thread may use this module. No value of a secret gets here: no field holds one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from egress.errors import CODES, FAILED_CODES
from egress.exchange import ExchangeRecord
from egress.relay.ports import ExchangeTiming
from egress.rules.decide.policy import Policy
from egress.telemetry.metric_families import HistogramValue, Labels, MetricFamily, by_label
from egress.types import Verdict

OTHER_LABEL: Final = "other"
"""Stands for every code that is not listed, and for every profile that the rules do not name."""
MAX_REFUSAL_KINDS: Final = 4096
"""Pairs of a code and a profile that are counted apart."""
UPSTREAM_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ADDED_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
LAG_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_MICROSECOND = 1e-6
_CODES = frozenset({*CODES, "lane.ended", "client.left"})


class Histogram:
    """Counts how often something took how long, in seconds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def value(self) -> HistogramValue:
        """Return what was counted so far."""
        return HistogramValue(self.bounds, tuple(self.counts), self.total)


def histogram(name: str, text: str, points: Iterable[tuple[Labels, Histogram]]) -> MetricFamily:
    """Return a family of histograms."""
    return MetricFamily(
        name, "histogram", text, tuple((labels, counted.value()) for labels, counted in points)
    )


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
        "loop_lag",
    )

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, str, str], int] = {}
        """By verdict, entry, and the two parts of a rule's name: to join them is for later."""
        self._refused: dict[tuple[str, str], int] = {}
        """By code and profile."""
        self._cut: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._tunnels: dict[str, int] = {}
        self._injected: dict[str, int] = {}
        self._scrubbed: dict[str, int] = {}
        self._upstream: dict[str, Histogram] = {}
        self._added = Histogram(ADDED_BUCKETS)
        self.loop_lag = Histogram(LAG_BUCKETS)
        """How late the event loop was where it had work to do."""
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
        self._ended(record.verdict, record.code, record.identity.profile)
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

    def refused(self, code: str, profile: str | None) -> None:
        """Count a request, a connection or a name that was refused to a sandbox of this profile."""
        kind = (code, profile or "")
        if kind not in self._refused and len(self._refused) >= MAX_REFUSAL_KINDS:
            kind = (code, OTHER_LABEL)
        self._refused[kind] = self._refused.get(kind, 0) + 1

    def tunnel(
        self, entry: str | None, profile: str | None, verdict: Verdict = Verdict.ALLOW, code: str = ""
    ) -> None:
        """Count a tunnel that has ended; one that was never joined to its upstream is refused."""
        self._ended(verdict, code, profile)
        if verdict is not Verdict.DENY:
            entry = entry or ""
            self._tunnels[entry] = self._tunnels.get(entry, 0) + 1

    def _ended(self, verdict: Verdict, code: str, profile: str | None) -> None:
        """Count an end that is none of a complete exchange, by its reason."""
        if verdict is Verdict.DENY:
            self.refused(code, profile)
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

    def families(self, policy: Policy) -> Iterator[MetricFamily]:
        """Yield what was counted for the names in these rules."""
        self.keep(policy)
        yield from self._verdicts(policy)
        yield by_label("tunnels_total", "Tunnels that have ended.", "entry", self._tunnels)
        yield by_label("injections_total", "Requests that were sent with a secret.", "secret", self._injected)
        found = "Places in answers where a secret was found."
        yield by_label("scrubbed_total", found, "secret", self._scrubbed)
        yield from self._times()

    def _verdicts(self, policy: Policy) -> Iterator[MetricFamily]:
        # Labels are those of the rules alone: a host or a path would let clients make series without end.
        requests = [
            ((("verdict", verdict), ("entry", entry), ("rule", f"{key}#{rule}" if rule else "")), count)
            for (verdict, entry, key, rule), count in self._requests.items()
        ]
        told = "Requests, by verdict, entry of the rules and rule."
        yield MetricFamily("requests_total", "counter", told, tuple(requests))
        refused = _listed_refusals(self._refused, policy)
        yield MetricFamily(
            "refusals_total",
            "counter",
            "Requests, connections and names that were refused.",
            tuple(
                ((("code", code), ("profile", profile)), refused[code, profile])
                for code, profile in sorted(refused)
            ),
        )
        cut = "Requests and tunnels that were stopped after a part had been sent."
        yield by_label("cuts_total", cut, "code", _listed(self._cut))
        failed = "Requests and tunnels that were allowed, and whose upstream failed."
        yield by_label("failures_total", failed, "code", self._failed)

    def _times(self) -> Iterator[MetricFamily]:
        yield histogram(
            "upstream_seconds",
            "From a request's head sent to the head of its answer.",
            (((("entry", entry),), times) for entry, times in self._upstream.items()),
        )
        # Only the time that the proxy itself adds: name, connection and TLS depend on the upstream, and a
        # body that is searched before the head leaves depends on the client.
        yield histogram(
            "added_seconds",
            "From a request's head read to its head sent, without name, connection, TLS and body.",
            [((), self._added)],
        )
        yield histogram(
            "loop_lag_seconds",
            "How late the event loop came to work that was due, looked at once a second.",
            [((), self.loop_lag)],
        )


def _listed(counts: dict[str, int]) -> dict[str, int]:
    """Counts by code. Unlisted codes share a label, so that the number of series stays bounded."""
    found: dict[str, int] = {}
    for code, count in counts.items():
        listed = _listed_code(code)
        found[listed] = found.get(listed, 0) + count
    return found


def _listed_refusals(counts: dict[tuple[str, str], int], policy: Policy) -> dict[tuple[str, str], int]:
    """The same by code and profile: a profile that the rules do not name is not told either."""
    profiles = {"", *(policy.profiles or ())}
    found: dict[tuple[str, str], int] = {}
    for (code, profile), count in counts.items():
        listed = (_listed_code(code), profile if profile in profiles else OTHER_LABEL)
        found[listed] = found.get(listed, 0) + count
    return found


def _listed_code(code: str) -> str:
    return code if code in _CODES else OTHER_LABEL


def _of(counts: dict[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: counts[name] for name in names if name in counts}
