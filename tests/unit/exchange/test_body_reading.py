"""Reading a body before the verdict: what is counted, digested and kept for the record."""

from __future__ import annotations

import hashlib
import json

import pytest

from egress.exchange.body_reading import BodyReading, refusal_answer
from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import KINDS
from egress.types import Decision, Head, Place, RuleRef, Verdict
from tests.unit.inspect.graphql.vectors import READ, envelope

KIND = KINDS["graphql"]
HEAD = Head("POST", "https", "api.example.test", 443, "/graphql")


def test_a_body_is_counted_and_digested() -> None:
    reading = BodyReading(KIND, HEAD)
    body = envelope(READ)
    for at in range(len(body)):
        reading.feed(body[at : at + 1])
        assert reading.found is None
        assert reading.goes_on
    reading.end()
    assert isinstance(reading.found, Facts)
    assert not reading.goes_on
    assert reading.log(None) == {
        "body": "graphql",
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "graphql_query": "viewer",
    }


def test_a_body_over_the_cap_is_unreadable_and_not_read_on() -> None:
    reading = BodyReading(KIND, HEAD)
    reading.feed(b" " * (KIND.max_held_bytes + 1))
    assert isinstance(reading.found, Unreadable)
    assert reading.found.code == "body.too_large"
    reading.end()
    assert reading.found.code == "body.too_large"


def test_an_unreadable_head_needs_no_body() -> None:
    reading = BodyReading(KIND, Head("POST", "https", "api.example.test", 443, "/graphql?id=1"))
    assert isinstance(reading.found, Unreadable)
    assert "body_sha256" not in reading.log(None)


@pytest.mark.parametrize("allowed", [True, False])
def test_an_answer_names_the_deny_rule_and_its_reason(allowed: bool) -> None:
    ref = RuleRef("api.example.test", "no", Place("f", 1, 1), reason="not on Fridays")
    verdict = Verdict.ALLOW if allowed else Verdict.DENY
    decision = Decision(verdict, "rule.denied", rule=ref, body_kind="graphql", item="mutation.x")
    said = json.loads(refusal_answer(KIND, "rule.denied", decision, None).body)
    assert ("not on Fridays" in said["message"]) is not allowed
    assert said["errors"][0]["extensions"].get("rule") == (None if allowed else "api.example.test#no")
