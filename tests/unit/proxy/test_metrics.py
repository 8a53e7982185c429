"""Counting, and the text that comes of it: its labels are bounded by the rules, whatever was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from egress.proxy.metrics import ADDED_BUCKETS, OTHER_LABEL, Histogram, Metrics, ProxyStatus
from egress.relay.ports import ExchangeTiming
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import EMPTY_POLICY, Policy
from egress.types import Place, RuleRef, Slot, Verdict
from tests.unit.audit.sample import DENIED, RECORD

GUIDE = Path(__file__).parents[3] / "docs/guides/metrics.md"
KEY = "api.github.com"
RULES = """\
version: 1
secrets:
  github: {from: "env:TOKEN", hosts: [api.github.com]}
hosts:
  api.github.com:
    allow: [{id: read, methods: [GET]}]
  docs.example.com: {}
"""
TIMING = ExchangeTiming(began=10.0, sent=10.25, answered=10.5, ended=11.0)

type Labels = dict[str, str]


def policy(text: str = RULES) -> Policy:
    found = load([RuleText("hosts.yaml", text)]).policy
    assert found is not None
    return found


def standing(rules: Policy | None = None) -> ProxyStatus:
    return ProxyStatus("1.2.3", rules or policy())


def read(text: str) -> dict[str, list[tuple[Labels, float]]]:
    """As Prometheus would: by the name of the sample."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def counted(metrics: Metrics, name: str, rules: Policy | None = None) -> list[tuple[Labels, float]]:
    return read(metrics.text(standing(rules))).get(f"egress_{name}", [])


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_requests_are_counted_by_verdict_entry_and_rule(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.exchange(KEY, DENIED, ExchangeTiming(), 0)
    assert counted(metrics, "requests_total") == [
        ({"verdict": "allow", "entry": KEY, "rule": "api.github.com#read"}, 2),
        ({"verdict": "deny", "entry": KEY, "rule": ""}, 1),
    ]


def test_refusals_are_counted_by_code(metrics: Metrics) -> None:
    """A denied request, and what the door refused, are the same to whoever watches them."""
    metrics.exchange(KEY, DENIED, ExchangeTiming(), 0)
    metrics.refused("rule.none")
    metrics.refused("host.unknown")
    assert counted(metrics, "refusals_total") == [({"code": "host.unknown"}, 1), ({"code": "rule.none"}, 2)]


def test_an_allowed_request_that_was_cut_is_no_refusal(metrics: Metrics) -> None:
    metrics.exchange(KEY, replace(RECORD, code="upstream.closed"), TIMING, 0)
    assert counted(metrics, "refusals_total") == []


def test_what_was_cut_and_what_failed_are_counted_by_code(metrics: Metrics) -> None:
    cut = replace(RECORD, verdict=Verdict.CUT, code="canary.seen")
    metrics.exchange(KEY, cut, TIMING, 0)
    metrics.tunnel(KEY, Verdict.CUT, "access.withdrawn")
    metrics.tunnel(KEY, Verdict.DENY, "address.refused")
    metrics.tunnel(KEY, Verdict.ALLOW, "upstream.unreachable")
    metrics.exchange(KEY, replace(RECORD, code="upstream.closed"), TIMING, 0)
    metrics.exchange(KEY, replace(RECORD, code="client.left"), TIMING, 0)
    assert counted(metrics, "cuts_total") == [({"code": "access.withdrawn"}, 1), ({"code": "canary.seen"}, 1)]
    assert counted(metrics, "failures_total") == [
        ({"code": "upstream.closed"}, 1),
        ({"code": "upstream.unreachable"}, 1),
    ]
    assert counted(metrics, "refusals_total") == [({"code": "address.refused"}, 1)]
    assert counted(metrics, "tunnels_total") == [({"entry": KEY}, 2)]
    assert ({"verdict": "cut", "entry": KEY, "rule": "api.github.com#read"}, 1) in counted(
        metrics, "requests_total"
    )


def test_the_wait_for_a_body_is_no_time_that_the_proxy_added(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, replace(TIMING, body_wait=TIMING.sent - TIMING.began), 0)
    ((_, added),) = counted(metrics, "added_seconds_sum")
    assert added == 0


def test_a_code_that_is_not_listed_is_no_label(metrics: Metrics) -> None:
    metrics.refused("made.up")
    metrics.refused("made.up.too")
    assert counted(metrics, "refusals_total") == [({"code": OTHER_LABEL}, 2)]


def test_injections_and_scrubs_are_counted_by_the_name_of_the_secret(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.exchange(KEY, replace(RECORD, scrubbed=()), TIMING, 0)
    assert counted(metrics, "injections_total") == [({"secret": "github"}, 2)]
    assert counted(metrics, "scrubbed_total") == [({"secret": "github"}, 2)]


def test_tunnels_are_counted_by_entry(metrics: Metrics) -> None:
    metrics.tunnel("docs.example.com")
    metrics.tunnel(None)
    assert counted(metrics, "tunnels_total") == [({"entry": ""}, 1), ({"entry": "docs.example.com"}, 1)]


def test_latencies_are_those_of_the_upstream_and_what_was_added(metrics: Metrics) -> None:
    """The connection is the upstream's affair, so its quarter of a second is not ours."""
    metrics.exchange(KEY, RECORD, TIMING, 200_000)
    assert counted(metrics, "upstream_seconds_sum") == [({"entry": KEY}, 0.25)]
    ((_, added),) = counted(metrics, "added_seconds_sum")
    assert added == pytest.approx(0.05)
    assert ({"le": "0.05", "entry": KEY}, 0) in counted(metrics, "upstream_seconds_bucket")
    assert ({"le": "0.25", "entry": KEY}, 1) in counted(metrics, "upstream_seconds_bucket")
    assert ({"le": "+Inf", "entry": KEY}, 1) in counted(metrics, "upstream_seconds_bucket")


def test_what_was_never_sent_has_no_latency(metrics: Metrics) -> None:
    metrics.exchange(KEY, DENIED, ExchangeTiming(began=10.0, ended=11.0), 0)
    metrics.exchange(KEY, RECORD, ExchangeTiming(began=10.0, sent=10.5, ended=11.0), 0)
    assert counted(metrics, "added_seconds_count") == [({}, 1)]
    assert counted(metrics, "upstream_seconds_count") == []


def test_a_connection_that_was_made_before_adds_nothing(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 9_000_000)
    assert counted(metrics, "added_seconds_sum") == [({}, 0)]


def test_a_bucket_holds_its_own_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (1.0, 1.5, 2.0, 2.1):
        histogram.add(seconds)
    assert histogram.counts == [1, 2, 1]
    assert [value for end, _, value in histogram.samples() if end == "_bucket"] == [1, 3, 4]


# Bounds of labels -----------------------------------------------------------------------------------


def test_what_leaves_the_rules_leaves_the_metrics(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.tunnel("docs.example.com")
    assert KEY in metrics.text(standing())
    text = metrics.text(standing(policy("version: 1\nhosts:\n  other.example.com: {}\n")))
    for gone in (KEY, "docs.example.com", "github"):
        assert gone not in text
    assert KEY not in metrics.text(standing()), "it begins anew"


def test_a_reload_forgets_without_anybody_asking(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.keep(EMPTY_POLICY)
    assert counted(metrics, "requests_total") == []


def test_a_rule_that_leaves_is_forgotten_and_its_entry_stays(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.exchange(KEY, DENIED, ExchangeTiming(), 0)
    other = policy(RULES.replace("id: read", "id: look"))
    assert [labels["rule"] for labels, _ in counted(metrics, "requests_total", other)] == [""]


def test_what_no_rule_names_is_never_a_label(metrics: Metrics) -> None:
    """An attacker who asks for ten thousand names, rules or secrets makes no series."""
    before = metrics.text(standing())
    for number in range(10_000):
        name = f"evil-{number}.example"
        ref = RuleRef(name, "x", Place("hosts.yaml", 1, 1))
        record = replace(RECORD, rule=ref, injected=((name, Slot("header", "x")),), scrubbed=((name, 1),))
        metrics.exchange(name, record, TIMING, 0)
        metrics.tunnel(name)
    text = metrics.text(standing())
    assert "evil" not in text
    assert text.splitlines()[0] == before.splitlines()[0]
    assert not metrics._requests
    assert not metrics._upstream


def test_a_label_cannot_end_itself(metrics: Metrics) -> None:
    nasty = 'a"b\\c\nd'
    now = replace(standing(), reloads={nasty: 1})
    assert read(metrics.text(now))["egress_reloads_total"] == [({"result": nasty}, 1)]


def test_top_denies_are_rules_too(metrics: Metrics) -> None:
    rules = policy(f"{RULES}deny:\n  - {{id: never, paths: ['/admin/**']}}\n")
    ref = rules.deny[0].ref
    metrics.exchange(
        KEY, replace(RECORD, verdict=Verdict.DENY, code="rule.denied", rule=ref), ExchangeTiming(), 0
    )
    assert [labels["rule"] for labels, _ in counted(metrics, "requests_total", rules)] == [str(ref)]


# What is looked up --------------------------------------------------------------------------------


def test_everything_that_is_looked_up_is_told(metrics: Metrics) -> None:
    now = ProxyStatus(
        "1.2.3",
        policy(),
        is_ready=False,
        began=1,
        loaded=2,
        reloads={"loaded": 3},
        sandboxes=4,
        connections=5,
        lanes={"full": 6, "tunnel": 7},
        available={"github": True},
        ages={"github": 8.5},
        is_writable=False,
        lag=9.25,
        unrecorded=10,
        newest=11,
        is_damaged=True,
    )
    found = read(metrics.text(now))
    values = {name: samples[0][1] for name, samples in found.items() if len(samples) == 1}
    assert values == {
        "egress_info": 1,
        "egress_ready": 0,
        "egress_start_time_seconds": 1,
        "egress_rules_loaded_time_seconds": 2,
        "egress_reloads_total": 3,
        "egress_sandboxes": 4,
        "egress_connections": 5,
        "egress_secret_available": 1,
        "egress_secret_age_seconds": 8.5,
        "egress_audit_writable": 0,
        "egress_audit_lag_seconds": 9.25,
        "egress_audit_unrecorded_total": 10,
        "egress_audit_newest_line": 11,
        "egress_audit_damaged": 1,
        "egress_added_seconds_sum": 0,
        "egress_added_seconds_count": 0,
    }
    assert found["egress_carried"] == [({"lane": "full"}, 6), ({"lane": "tunnel"}, 7)]
    assert len(found["egress_added_seconds_bucket"]) == len(ADDED_BUCKETS) + 1


def test_what_is_not_known_is_not_told(metrics: Metrics) -> None:
    text = metrics.text(standing())
    assert "audit_newest_line" not in text
    assert "audit_damaged" not in text


def test_every_metric_is_documented(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.refused("host.unknown")
    metrics.tunnel(KEY)
    metrics.tunnel(KEY, Verdict.CUT, "access.withdrawn")
    metrics.tunnel(KEY, Verdict.ALLOW, "upstream.closed")
    now = replace(
        standing(),
        reloads={"x": 1},
        lanes={"x": 1},
        available={"x": True},
        ages={"x": 1},
        newest=1,
        is_damaged=False,
    )
    lines = metrics.text(now).splitlines()
    names = [line.split(" ")[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == 24
    guide = GUIDE.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in guide] == []
