"""When each alert fires, and when it does not: series, a moment, and the labels of what fires then.

Values are written as promtool reads them: `0+6x20` begins at 0 and grows by 6 twenty times, once in thirty
seconds; `_` is no sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertCase:
    """Series, and what fires at a moment."""

    alert: str
    series: Mapping[str, str]
    at: str
    fires: tuple[Mapping[str, str], ...] = ()
    """Labels of each alert that fires, without its name and severity."""


A, B = 'instance="a",job="egress",namespace="ns"', 'instance="b",job="egress",namespace="ns"'
OF_A = {"instance": "a", "job": "egress", "namespace": "ns"}
OF_JOB = {"job": "egress", "namespace": "ns"}

CASES = (
    AlertCase("EgressMissing", {f"egress_ready{{{A}}}": "_x40"}, "6m", ({},)),
    AlertCase("EgressMissing", {f"egress_ready{{{A}}}": "_x8 0x40"}, "12m"),
    AlertCase(
        "EgressNotReady", {f"egress_ready{{{A}}}": "1x4 0x20", f"egress_ready{{{B}}}": "1x24"}, "5m", (OF_A,)
    ),
    AlertCase("EgressNotReady", {f"egress_ready{{{A}}}": "1x4 0 1x20"}, "5m"),
    AlertCase(
        "EgressWatchLost",
        {
            f'egress_watch_current{{kind="pods",{A}}}': "1 0x20",
            f'egress_watch_current{{kind="claims",{A}}}': "1x21",
        },
        "3m",
        ({"kind": "pods", **OF_A},),
    ),
    AlertCase("EgressWatchLost", {f'egress_watch_current{{kind="pods",{A}}}': "1 0 1x20"}, "3m"),
    AlertCase("EgressAuditNotWritten", {f"egress_audit_writable{{{A}}}": "1 0x20"}, "3m", (OF_A,)),
    AlertCase("EgressAuditNotWritten", {f"egress_audit_lag_seconds{{{A}}}": "0 6x20"}, "3m", (OF_A,)),
    AlertCase(
        "EgressAuditNotWritten",
        {f"egress_audit_writable{{{A}}}": "1x20", f"egress_audit_lag_seconds{{{A}}}": "0.2x20"},
        "3m",
    ),
    AlertCase("EgressAuditIncomplete", {f"egress_audit_unrecorded_total{{{A}}}": "0x4 1x20"}, "4m", (OF_A,)),
    AlertCase("EgressAuditIncomplete", {f"egress_audit_unrecorded_total{{{A}}}": "7x40"}, "4m"),
    AlertCase("EgressAuditDamaged", {f"egress_audit_damaged{{{A}}}": "1x20"}, "1m", (OF_A,)),
    AlertCase("EgressAuditDamaged", {f"egress_audit_damaged{{{A}}}": "0x20"}, "1m"),
    # The first one there ever was, and then one more; nothing while nothing new comes.
    AlertCase(
        "EgressCanarySent",
        {f'egress_refusals_total{{code="canary.seen",profile="",{A}}}': "_x40 1x40"},
        "21m",
        ({"code": "canary.seen", "profile": "", **OF_A},),
    ),
    AlertCase(
        "EgressCanarySent",
        {f'egress_cuts_total{{code="canary.stopped",{A}}}': "1x80 2x20"},
        "42m",
        ({"code": "canary.stopped", **OF_A},),
    ),
    AlertCase(
        "EgressCanarySent",
        {
            f'egress_refusals_total{{code="canary.seen",profile="",{A}}}': "3x100",
            f'egress_refusals_total{{code="host.unknown",profile="",{A}}}': "0+9x100",
        },
        "42m",
    ),
    AlertCase(
        "EgressSecretUnavailable",
        {f'egress_secret_available{{secret="github",{A}}}': "1 0x20"},
        "4m",
        ({"secret": "github", **OF_A},),
    ),
    AlertCase(
        "EgressSecretUnavailable", {f'egress_secret_available{{secret="github",{A}}}': "1 0x2 1x20"}, "4m"
    ),
    AlertCase(
        "EgressRulesRefused",
        {f'egress_reloads_total{{result="refused",{A}}}': "0x4 1x20"},
        "4m",
        ({"result": "refused", **OF_A},),
    ),
    AlertCase("EgressRulesRefused", {f'egress_reloads_total{{result="loaded",{A}}}': "0x4 1x20"}, "4m"),
    AlertCase(
        "EgressRulesDiffer",
        {f'egress_rules_info{{digest="one",{A}}}': "1x40", f'egress_rules_info{{digest="two",{B}}}': "1x40"},
        "12m",
        (OF_JOB,),
    ),
    # While a change is on its way to the second replica.
    AlertCase(
        "EgressRulesDiffer",
        {
            f'egress_rules_info{{digest="one",{A}}}': "1x4 stale",
            f'egress_rules_info{{digest="two",{A}}}': "_x4 1x40",
            f'egress_rules_info{{digest="one",{B}}}': "1x8 stale",
            f'egress_rules_info{{digest="two",{B}}}': "_x8 1x40",
        },
        "16m",
    ),
    AlertCase(
        "EgressDenialsRise",
        {f'egress_refusals_total{{code="host.unknown",profile="coding",{A}}}': "0+1x1440 1440+90x60"},
        "12h25m",
        ({"profile": "coding", **OF_JOB},),
    ),
    AlertCase(
        "EgressDenialsRise",
        {f'egress_refusals_total{{code="host.unknown",profile="coding",{A}}}': "0+90x1500"},
        "12h25m",
    ),
    AlertCase(
        "EgressUpstreamsFail",
        {
            f'egress_failures_total{{code="upstream.unreachable",{A}}}': "0+30x80",
            f'egress_requests_total{{verdict="allow",entry="x",rule="x#y",{A}}}': "0+300x80",
        },
        "30m",
        (OF_JOB,),
    ),
    AlertCase(
        "EgressUpstreamsFail",
        {
            f'egress_failures_total{{code="upstream.unreachable",{A}}}': "0+6x80",
            f'egress_requests_total{{verdict="allow",entry="x",rule="x#y",{A}}}': "0+300x80",
        },
        "30m",
    ),
    AlertCase(
        "EgressEventLoopLate",
        {
            f'egress_loop_lag_seconds_bucket{{le="0.1",{A}}}': "0+1x80",
            f'egress_loop_lag_seconds_bucket{{le="0.5",{A}}}': "0+30x80",
            f'egress_loop_lag_seconds_bucket{{le="+Inf",{A}}}': "0+30x80",
        },
        "30m",
        ({"instance": "a"},),
    ),
    AlertCase(
        "EgressEventLoopLate",
        {
            f'egress_loop_lag_seconds_bucket{{le="0.1",{A}}}': "0+29x80",
            f'egress_loop_lag_seconds_bucket{{le="0.5",{A}}}': "0+30x80",
            f'egress_loop_lag_seconds_bucket{{le="+Inf",{A}}}': "0+30x80",
        },
        "30m",
    ),
    AlertCase(
        "EgressAuthorityExpires", {f"egress_authority_expiry_time_seconds{{{A}}}": "86000x80"}, "30m", (OF_A,)
    ),
    AlertCase("EgressAuthorityExpires", {f"egress_authority_expiry_time_seconds{{{A}}}": "604800x80"}, "30m"),
    AlertCase(
        "EgressTelemetryDropped",
        {f'egress_telemetry_dropped_total{{signal="logs",reason="collector",{A}}}': "0+5x80"},
        "30m",
        ({"signal": "logs", "reason": "collector", **OF_A},),
    ),
    AlertCase(
        "EgressTelemetryDropped",
        {f'egress_telemetry_dropped_total{{signal="logs",reason="rate",{A}}}': "0+5x80"},
        "30m",
    ),
)
