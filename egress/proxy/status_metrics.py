"""The state of a proxy as metrics: what is looked up when somebody asks, instead of being counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from egress.audit.sink import Sink
from egress.rules.decide.policy import Policy
from egress.telemetry.metric_families import MetricFamily, by_label, counter, gauge, info

_DIGEST_CHARS: Final = 12
"""As much of a digest as the process log and `egress status` show."""


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """The state of the audit log."""

    is_writable: bool = True
    """It takes lines."""
    lag: float = 0.0
    """Seconds since the kernel had every line of it."""
    failures: int = 0
    """Writes that the kernel refused."""
    unrecorded: int = 0
    newest: int | None = None
    """The number of its newest line, where that is known."""
    is_damaged: bool | None = None
    """The start found the log damaged; None if unknown."""

    @classmethod
    def of(cls, log: Sink, lag: float) -> Self:
        """Look at the log; `lag` is for how long some line of it waits."""
        return cls(
            is_writable=not log.trouble,
            lag=lag,
            failures=log.write_failures,
            unrecorded=log.tally.unrecorded,
            newest=log.newest,
            is_damaged=log.is_damaged,
        )


@dataclass(frozen=True, slots=True)
class ProxyStatus:
    """The state of a proxy."""

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
    expiry: int | None = None
    """When the first authority of a sandbox expires, in seconds of UTC; None without a sandbox."""
    audit: AuditStatus = field(default_factory=AuditStatus)
    budgets: Mapping[str, float] = field(default_factory=dict)
    """By budget: the share that is used of its fullest account."""
    dollars: Mapping[str, float] = field(default_factory=dict)
    """By budget: what was charged since the start."""
    tokens: Mapping[str, float] = field(default_factory=dict)

    def families(self) -> Iterator[MetricFamily]:
        """Yield the metrics that say this."""
        yield info("info", "The version that runs.", version=self.version)
        yield gauge("ready", "Whether it can serve.", self.is_ready)
        yield gauge("start_time_seconds", "When it was started.", self.began)
        yield from self._rules()
        yield gauge("sandboxes", "Sandboxes that it serves.", self.sandboxes)
        yield gauge("connections", "Connections of clients.", self.connections)
        yield by_label("carried", "Connections that are carried now.", "lane", self.lanes, "gauge")
        given = "Whether its source gives the secret."
        yield by_label("secret_available", given, "secret", self.available, "gauge")
        confirmed = "Since its source gave or confirmed it."
        yield by_label("secret_age_seconds", confirmed, "secret", self.ages, "gauge")
        if self.budgets:
            used = "Share of a budget that its fullest account has spent or reserved."
            yield by_label("budget_used_ratio", used, "budget", self.budgets, "gauge")
            yield by_label("budget_dollars_total", "Charged to a budget.", "budget", self.dollars)
            yield by_label("budget_tokens_total", "Charged to a budget.", "budget", self.tokens)
        # The earliest, and none by sandbox: a gateway has thousands of them.
        if self.expiry is not None:
            first = "When the first certificate authority of a sandbox expires."
            yield gauge("authority_expiry_time_seconds", first, self.expiry)
        yield from _audit_families(self.audit)

    def _rules(self) -> Iterator[MetricFamily]:
        yield gauge("rules_loaded_time_seconds", "When its rules came into force.", self.loaded)
        yield info("rules_info", "The rules in force.", digest=self.policy.digest[:_DIGEST_CHARS])
        yield by_label("reloads_total", "Reloads of the rules.", "result", self.reloads)


def _audit_families(audit: AuditStatus) -> Iterator[MetricFamily]:
    yield gauge("audit_writable", "Whether the audit log takes lines.", audit.is_writable)
    yield gauge("audit_lag_seconds", "Since every line of the audit log was written.", audit.lag)
    failed = "Writes of the audit log that the system refused."
    yield counter("audit_write_failures_total", failed, audit.failures)
    yield counter("audit_unrecorded_total", "Unlogged events.", audit.unrecorded)
    if audit.newest is not None:
        yield gauge("audit_newest_line", "The number of the newest line.", audit.newest)
    if audit.is_damaged is not None:
        damaged = "Whether the start found the end of the audit log damaged; later damage is not looked for."
        yield gauge("audit_damaged", damaged, audit.is_damaged)
