"""An exchange as a span: what it says, and what it cannot say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from egress.exchange.messages import TraceParent
from egress.telemetry.exchange_span import SPAN_ATTRIBUTES, ExchangeSpan
from egress.types import Verdict, Workload
from tests.unit.audit.sample import DENIED, FACTS, MOMENT, RECORD

GUIDE = Path(__file__).parents[3] / "docs/guides/telemetry.md"


def test_an_allowed_exchange_says_what_the_log_says() -> None:
    span = ExchangeSpan(RECORD, FACTS, MOMENT)
    assert span.name == "GET"
    assert not span.is_error
    assert span.began == MOMENT - 53_100_000
    assert span.attributes() == {
        "http.request.method": "GET",
        "url.scheme": "https",
        "server.address": "api.github.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "http.request.body.size": 312,
        "http.response.body.size": 2048,
        "egress.verdict": "allow",
        "egress.code": "rule.allowed",
        "egress.rule": "api.github.com#read",
        "egress.sandbox": "agent-1",
        "egress.profile": "coding",
        "egress.request": "c-17-3",
        "egress.connection": "c-17",
        "egress.secrets": 1,
        "egress.resolve_us": 1200,
        "egress.connect_us": 15000,
        "egress.tls_us": 31000,
        "egress.secret_us": 40,
        "egress.first_byte_us": 52000,
    }


def test_what_is_not_known_is_no_attribute() -> None:
    found = ExchangeSpan(replace(DENIED, status=0), FACTS, MOMENT).attributes()
    assert found.keys().isdisjoint({"egress.rule", "egress.secrets", "http.response.status_code"})


@pytest.mark.parametrize(
    ("verdict", "code", "is_error"),
    [
        (Verdict.ALLOW, "rule.allowed", False),
        (Verdict.ALLOW, "client.left", False),
        (Verdict.ALLOW, "upstream.closed", True),
        (Verdict.CUT, "canary.seen", True),
        (Verdict.DENY, "rule.none", False),
    ],
)
def test_a_denial_is_no_error(verdict: Verdict, code: str, is_error: bool) -> None:
    span = ExchangeSpan(replace(RECORD, verdict=verdict, code=code), FACTS, MOMENT)
    assert span.is_error is is_error
    assert span.attributes().get("error.type") == (code if is_error else None)


@pytest.mark.parametrize("method", ["", "get", "BREW", "X" * 32])
def test_a_method_that_a_sandbox_made_up_is_not_told(method: str) -> None:
    span = ExchangeSpan(replace(RECORD, method=method), FACTS, MOMENT)
    assert span.name == "HTTP"
    assert span.attributes()["http.request.method"] == "_OTHER"


def test_a_pod_is_named_as_far_as_it_is_known() -> None:
    workload = Workload("agents", pod="a-1", pod_uid="uid-1", replica="egress-0")
    record = replace(RECORD, identity=replace(RECORD.identity, workload=workload))
    found = ExchangeSpan(record, FACTS, MOMENT).attributes()
    assert {name: value for name, value in found.items() if name.startswith("k8s.")} == {
        "k8s.namespace.name": "agents",
        "k8s.pod.name": "a-1",
        "k8s.pod.uid": "uid-1",
    }
    assert found["egress.replica"] == "egress-0"
    assert "egress.claim" not in found


def test_the_parent_is_the_span_of_the_sandbox() -> None:
    parent = TraceParent(1, 2)
    assert ExchangeSpan(replace(RECORD, trace=parent), FACTS, MOMENT).parent == parent


def test_no_path_no_query_and_no_address_is_told() -> None:
    record = replace(RECORD, path="/path-of-it", query=(("key-of-it", ("value-of-it",)),))
    text = str(ExchangeSpan(record, FACTS, MOMENT).attributes())
    assert "api.github.com" in text, "the control"
    for never in ("path-of-it", "key-of-it", "value-of-it", "192.0.2.10", "'github'"):
        assert never not in text


def test_the_guide_lists_every_attribute_and_no_other() -> None:
    rows = re.findall(
        r"^\| `((?:http|url|server|error|egress|k8s)\.[a-z0-9_.]+)` \| (.*) \|$",
        GUIDE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert rows == [(each.name, each.meaning) for each in SPAN_ATTRIBUTES]
