"""The names of all metrics that there are, made by the code that makes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from egress.cluster.api_server import ClusterApi
from egress.kubernetes.identity_map import IdentityMap
from egress.proxy.metrics import Metrics
from egress.proxy.pods.cluster_assembly import ClusterPods
from egress.proxy.status_metrics import AuditStatus, ProxyStatus
from egress.rules.decide.policy import EMPTY_POLICY
from egress.telemetry.metric_families import METRIC_PREFIX, MetricFamily
from tests.unit.telemetry.test_telemetry_export import export


def _families() -> Iterator[MetricFamily]:
    yield from Metrics().families(EMPTY_POLICY)
    status = ProxyStatus("1", EMPTY_POLICY, expiry=1, audit=AuditStatus(newest=1, is_damaged=False))
    yield from replace(status).families()
    yield from export().families()
    # No API server is dialled, and no sandbox is asked for.
    api = ClusterApi("127.0.0.1", 1, "agents", Path("nowhere"))
    yield from ClusterPods(api, IdentityMap(), None, None, None).families(0)  # type: ignore[arg-type]


def _names() -> Iterator[str]:
    for family in _families():
        name = METRIC_PREFIX + family.name
        yield name
        if family.kind == "histogram":
            yield from (f"{name}{end}" for end in ("_bucket", "_sum", "_count"))


METRIC_NAMES: Final = frozenset(_names())


def names_in(query: str) -> set[str]:
    """The metrics of ours that a query asks for; of an alternative in brackets, each."""
    found = set(re.findall(r"\begress_[a-z_]+\b(?!\()", query))
    for before, choices, after in re.findall(r"\b(egress_)\(([a-z|_]+)\)([a-z_]*)", query):
        found |= {f"{before}{choice}{after}" for choice in choices.split("|")}
    return {name for name in found if name != "egress_"}
