"""The state of a proxy as metrics: all of it is told, and what is not known is left out."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from egress.proxy.status_metrics import AuditStatus, ProxyStatus
from egress.rules.decide.policy import EMPTY_POLICY
from egress.telemetry.prometheus_text import prometheus_text

GUIDE = Path(__file__).parents[3] / "docs/guides/metrics.md"

FULL = ProxyStatus(
    "1.2.3",
    EMPTY_POLICY,
    is_ready=False,
    began=1,
    loaded=2,
    reloads={"loaded": 3},
    sandboxes=4,
    connections=5,
    lanes={"full": 6, "tunnel": 7},
    available={"github": True},
    ages={"github": 8.5},
    expiry=9,
    audit=AuditStatus(is_writable=False, lag=9.25, failures=12, unrecorded=10, newest=11, is_damaged=True),
    budgets={"agents": 0.5},
    dollars={"agents": 1.25},
    tokens={"agents": 300},
)


def read(now: ProxyStatus) -> dict[str, list[tuple[dict[str, str], float]]]:
    """As Prometheus would."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(prometheus_text(now.families())):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_everything_that_is_looked_up_is_told() -> None:
    found = read(FULL)
    assert {name: samples[0][1] for name, samples in found.items() if len(samples) == 1} == {
        "egress_info": 1,
        "egress_ready": 0,
        "egress_start_time_seconds": 1,
        "egress_rules_loaded_time_seconds": 2,
        "egress_rules_info": 1,
        "egress_reloads_total": 3,
        "egress_sandboxes": 4,
        "egress_connections": 5,
        "egress_secret_available": 1,
        "egress_secret_age_seconds": 8.5,
        "egress_authority_expiry_time_seconds": 9,
        "egress_audit_writable": 0,
        "egress_audit_lag_seconds": 9.25,
        "egress_audit_write_failures_total": 12,
        "egress_audit_unrecorded_total": 10,
        "egress_audit_newest_line": 11,
        "egress_audit_damaged": 1,
        "egress_budget_used_ratio": 0.5,
        "egress_budget_dollars_total": 1.25,
        "egress_budget_tokens_total": 300,
    }
    assert found["egress_carried"] == [({"lane": "full"}, 6), ({"lane": "tunnel"}, 7)]
    assert found["egress_rules_info"][0][0] == {"digest": EMPTY_POLICY.digest[:12]}


def test_what_is_not_known_is_not_told() -> None:
    text = prometheus_text(ProxyStatus("1.2.3", EMPTY_POLICY).families())
    for unknown in ("audit_newest_line", "audit_damaged", "authority_expiry"):
        assert unknown not in text


def test_every_metric_is_documented() -> None:
    names = [f"egress_{family.name}" for family in FULL.families() if family.points]
    assert len(names) == 21
    guide = GUIDE.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in guide] == []
