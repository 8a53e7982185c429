"""Counting, and the text that comes of it: its labels are bounded by the rules, whatever was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from egress.proxy.metrics import MAX_REFUSAL_KINDS, OTHER_LABEL, Metrics
from egress.relay.ports import ExchangeTiming
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import EMPTY_POLICY, Policy
from egress.telemetry.prometheus_text import prometheus_text
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
profiles:
  coding: {hosts: [docs.example.com]}
"""
TIMING = ExchangeTiming(began=10.0, sent=10.25, answered=10.5, ended=11.0)

type Labels = dict[str, str]


def policy(text: str = RULES) -> Policy:
    found = load([RuleText("hosts.yaml", text)]).policy
    assert found is not None
    return found


def told(metrics: Metrics, rules: Policy | None = None) -> str:
    return prometheus_text(metrics.families(rules or policy()))


def read(text: str) -> dict[str, list[tuple[Labels, float]]]:
    """As Prometheus would: by the name of the sample."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def counted(metrics: Metrics, name: str, rules: Policy | None = None) -> list[tuple[Labels, float]]:
    return read(told(metrics, rules)).get(f"egress_{name}", [])


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


def test_refusals_are_counted_by_code_and_profile(metrics: Metrics) -> None:
    """A denied request, and what the door refused, are the same to whoever watches them."""
    metrics.exchange(KEY, DENIED, ExchangeTiming(), 0)
    metrics.refused("rule.none", None)
    metrics.refused("host.unknown", None)
    assert counted(metrics, "refusals_total") == [
        ({"code": "host.unknown", "profile": ""}, 1),
        ({"code": "rule.none", "profile": ""}, 1),
        ({"code": "rule.none", "profile": "coding"}, 1),
    ]


def test_an_allowed_request_that_was_cut_is_no_refusal(metrics: Metrics) -> None:
    metrics.exchange(KEY, replace(RECORD, code="upstream.closed"), TIMING, 0)
    assert counted(metrics, "refusals_total") == []


def test_what_was_cut_and_what_failed_are_counted_by_code(metrics: Metrics) -> None:
    cut = replace(RECORD, verdict=Verdict.CUT, code="canary.seen")
    metrics.exchange(KEY, cut, TIMING, 0)
    metrics.tunnel(KEY, None, Verdict.CUT, "access.withdrawn")
    metrics.tunnel(KEY, None, Verdict.DENY, "address.refused")
    metrics.tunnel(KEY, None, Verdict.ALLOW, "upstream.unreachable")
    metrics.exchange(KEY, replace(RECORD, code="upstream.closed"), TIMING, 0)
    metrics.exchange(KEY, replace(RECORD, code="client.left"), TIMING, 0)
    assert counted(metrics, "cuts_total") == [({"code": "access.withdrawn"}, 1), ({"code": "canary.seen"}, 1)]
    assert counted(metrics, "failures_total") == [
        ({"code": "upstream.closed"}, 1),
        ({"code": "upstream.unreachable"}, 1),
    ]
    assert counted(metrics, "refusals_total") == [({"code": "address.refused", "profile": ""}, 1)]
    assert counted(metrics, "tunnels_total") == [({"entry": KEY}, 2)]
    assert ({"verdict": "cut", "entry": KEY, "rule": "api.github.com#read"}, 1) in counted(
        metrics, "requests_total"
    )


def test_the_wait_for_a_body_is_no_time_that_the_proxy_added(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, replace(TIMING, body_wait=TIMING.sent - TIMING.began), 0)
    ((_, added),) = counted(metrics, "added_seconds_sum")
    assert added == 0


def test_a_code_that_is_not_listed_is_no_label(metrics: Metrics) -> None:
    metrics.refused("made.up", None)
    metrics.refused("made.up.too", None)
    assert counted(metrics, "refusals_total") == [({"code": OTHER_LABEL, "profile": ""}, 2)]


def test_injections_and_scrubs_are_counted_by_the_name_of_the_secret(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.exchange(KEY, replace(RECORD, scrubbed=()), TIMING, 0)
    assert counted(metrics, "injections_total") == [({"secret": "github"}, 2)]
    assert counted(metrics, "scrubbed_total") == [({"secret": "github"}, 2)]


def test_tunnels_are_counted_by_entry(metrics: Metrics) -> None:
    metrics.tunnel("docs.example.com", None)
    metrics.tunnel(None, None)
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


def test_a_late_event_loop_is_counted(metrics: Metrics) -> None:
    metrics.loop_lag.add(0.02)
    assert counted(metrics, "loop_lag_seconds_sum") == [({}, 0.02)]
    assert ({"le": "0.01"}, 0) in counted(metrics, "loop_lag_seconds_bucket")
    assert ({"le": "0.025"}, 1) in counted(metrics, "loop_lag_seconds_bucket")


# Bounds of labels -----------------------------------------------------------------------------------


def test_what_leaves_the_rules_leaves_the_metrics(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.tunnel("docs.example.com", None)
    assert KEY in told(metrics)
    text = told(metrics, policy("version: 1\nhosts:\n  other.example.com: {}\n"))
    for gone in (KEY, "docs.example.com", "github"):
        assert gone not in text
    assert KEY not in told(metrics), "it begins anew"


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
    before = told(metrics)
    for number in range(10_000):
        name = f"evil-{number}.example"
        ref = RuleRef(name, "x", Place("hosts.yaml", 1, 1))
        record = replace(RECORD, rule=ref, injected=((name, Slot("header", "x")),), scrubbed=((name, 1),))
        metrics.exchange(name, record, TIMING, 0)
        metrics.tunnel(name, name)
    text = told(metrics)
    assert "evil" not in text
    assert text.splitlines()[0] == before.splitlines()[0]
    assert not metrics._requests
    assert not metrics._upstream


def test_a_profile_that_the_rules_do_not_name_is_no_label(metrics: Metrics) -> None:
    metrics.refused("host.unknown", "coding")
    metrics.refused("host.unknown", "made-up")
    metrics.refused("host.unknown", "made-up-too")
    assert counted(metrics, "refusals_total") == [
        ({"code": "host.unknown", "profile": "coding"}, 1),
        ({"code": "host.unknown", "profile": OTHER_LABEL}, 2),
    ]


def test_profiles_without_end_take_no_memory(metrics: Metrics) -> None:
    """Whoever makes sandboxes may name profiles: those of the rules are told, however many others came."""
    for number in range(3 * MAX_REFUSAL_KINDS):
        metrics.refused("host.unknown", f"made-up-{number}")
    assert len(metrics._refused) == MAX_REFUSAL_KINDS + 1
    assert [value for _, value in counted(metrics, "refusals_total")] == [3 * MAX_REFUSAL_KINDS]


def test_top_denies_are_rules_too(metrics: Metrics) -> None:
    rules = policy(f"{RULES}deny:\n  - {{id: never, paths: ['/admin/**']}}\n")
    ref = rules.deny[0].ref
    metrics.exchange(
        KEY, replace(RECORD, verdict=Verdict.DENY, code="rule.denied", rule=ref), ExchangeTiming(), 0
    )
    assert [labels["rule"] for labels, _ in counted(metrics, "requests_total", rules)] == [str(ref)]


def test_every_metric_is_documented(metrics: Metrics) -> None:
    metrics.exchange(KEY, RECORD, TIMING, 0)
    metrics.refused("host.unknown", None)
    metrics.tunnel(KEY, None)
    metrics.tunnel(KEY, None, Verdict.CUT, "access.withdrawn")
    metrics.tunnel(KEY, None, Verdict.ALLOW, "upstream.closed")
    names = [f"egress_{family.name}" for family in metrics.families(policy()) if family.points]
    assert len(names) == 10
    guide = GUIDE.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in guide] == []
