"""The numbered requests, by the rules alone."""

from __future__ import annotations

import json

import pytest

from egress.inspect.inspector import MORE, Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.rules.compile.asked_body import decide_whole
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity
from tests.unit.inspect.mcp.vectors import ALLOWED, RULE, VECTORS, Vector

NAME = "mcp.example.test"
KIND = KINDS["mcp"]
# By its head and body alone nobody can tell to which sandbox a session belongs.
ALONE = [vector for vector in VECTORS if vector.number != "11"]


def policy_of(*rules: str) -> Policy:
    listed = "".join(f"\n      - {{id: rule{number}, {rule}}}" for number, rule in enumerate(rules))
    text = f"version: 1\nhosts:\n  {NAME}:\n    allow:{listed}\n"
    loaded = load([RuleText("hosts.yaml", text)], {}, None)
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


POLICY = policy_of('paths: ["/**"]', f"paths: [/mcp], {RULE}")


def head_of(vector: Vector) -> Head:
    return Head("POST", "https", NAME, 443, "/mcp", vector.headers)


@pytest.mark.parametrize("vector", ALONE, ids=lambda each: each.number)
def test_a_numbered_request_is_decided_as_the_table_says(vector: Vector) -> None:
    decision, _ = decide_whole(POLICY, Identity("box"), head_of(vector), 0, vector.body)
    assert (decision.code, decision.item) == (vector.code, vector.item)


@pytest.mark.parametrize("vector", ALONE, ids=lambda each: each.number)
def test_facts_do_not_depend_on_the_pieces(vector: Vector) -> None:
    whole = inspect_whole(KIND, head_of(vector), vector.body)
    pieces = KIND.begin(head_of(vector))
    if isinstance(pieces, Facts | Unreadable):
        assert pieces == whole
        return
    for at in range(0, len(vector.body), 7):
        assert pieces.feed(vector.body[at : at + 7]) is MORE
    assert pieces.end() == whole


def test_the_log_has_names_and_no_values() -> None:
    found = [inspect_whole(KIND, head_of(each), each.body) for each in ALONE if each.code == ALLOWED]
    texts = [json.dumps(dict(each.log)) for each in found if isinstance(each, Facts)]
    assert len(texts) == len(found)
    assert all("acme/app" not in text or "mcp_resource" in text for text in texts)
    assert any('"mcp_arguments": "repo labels draft count"' in text for text in texts)
