"""The stage in which a body is held: its order, its limits, and faults in it."""

from __future__ import annotations

import pytest

from egress.exchange import (
    DenyRequest,
    Destination,
    Exchange,
    HoldBody,
    OrderError,
    Request,
    SendRequest,
    body_reading,
)
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.limits import LimitResult
from egress.rules.decide.policy import Policy
from egress.types import Identity, Limit, Verdict
from tests.unit.inspect.git.git_bytes import command_lines, commit, pack_of
from tests.unit.inspect.graphql.vectors import READ, envelope

NOW = 1_800_000_000
HOST = "api.example.test"
REF = "refs/heads/main"
GOOD, BAD = envelope(READ), envelope("mutation{x}")


def policy_of(more: str = "", limits: str = "", field: str = "viewer") -> Policy:
    text = f"""
version: 1
hosts:
  {HOST}:
    {limits}
    allow:
      - {{id: gql, paths: [/graphql], graphql: {{query: [{field}]}}{more}}}
"""
    loaded = load([RuleText("hosts.yaml", text)], {}, None)
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


def held(policy: Policy, *, length: int = 0, spent: list[tuple[Limit, ...]] | None = None) -> Exchange:
    def spend(limits: tuple[Limit, ...]) -> LimitResult:
        if spent is not None:
            spent.append(limits)
        return LimitResult(allowed=True)

    one = Exchange(policy, Identity("box"), Destination("https", HOST, 443), spend=spend)
    fields = (
        ("host", HOST),
        ("content-type", "application/json"),
        *([("content-length", str(length))] if length else []),
    )
    step = one.begin(Request("POST", "/graphql", fields), NOW)
    assert isinstance(step, HoldBody | DenyRequest)
    return one


def test_a_held_body_is_judged_at_its_end() -> None:
    one = held(policy_of())
    assert one.inspect(GOOD) == HoldBody()
    assert isinstance(one.inspect_end(), SendRequest)


@pytest.mark.parametrize("step", ["provide", "request_data", "respond", "end"])
def test_no_other_step_leads_out_of_the_stage(step: str) -> None:
    one = held(policy_of())
    steps: dict[str, tuple[object, ...]] = {
        "provide": ({}, None),
        "request_data": (b"x",),
        "respond": (None,),
        "end": (),
    }
    with pytest.raises(OrderError):
        getattr(one, step)(*steps[step])
    assert one.finish().verdict is Verdict.DENY


def test_a_fault_in_the_inspector_leaves_no_way_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: object) -> None:
        raise RecursionError

    one = held(policy_of())
    monkeypatch.setattr(body_reading.BodyReading, "feed", boom)
    with pytest.raises(RecursionError):
        one.inspect(GOOD)
    with pytest.raises(OrderError):
        one.inspect(GOOD)
    with pytest.raises(OrderError):
        one.inspect_end()
    with pytest.raises(OrderError):
        one.provide({}, None)
    assert one.finish().verdict is Verdict.DENY


def test_only_an_allowed_request_counts() -> None:
    spent: list[tuple[Limit, ...]] = []
    policy = policy_of(", limits: {requests: 5/second}")
    one = held(policy, spent=spent)
    one.inspect(BAD)
    assert isinstance(one.inspect_end(), DenyRequest)
    assert not spent
    one = held(policy, spent=spent)
    one.inspect(GOOD)
    one.inspect_end()
    assert len(spent) == 1


@pytest.mark.parametrize("where", ["rule", "entry"])
def test_the_limit_on_bodies_holds_for_a_held_one(where: str) -> None:
    limit = "limits: {request_body: 20}"
    policy = policy_of(f", {limit}") if where == "rule" else policy_of(limits=limit)
    one = held(policy)
    steps = [one.inspect(GOOD)]
    if steps[-1] == HoldBody():
        steps.append(one.inspect_end())
    assert isinstance(steps[-1], DenyRequest)
    assert steps[-1].code == "limit.request_body"


def test_a_stated_length_over_the_limit_of_the_entry_is_refused_at_the_head() -> None:
    one = held(policy_of(limits="limits: {request_body: 20}"), length=21)
    assert one.finish().code == "limit.request_body"


@pytest.mark.parametrize("known", [True, False])
def test_a_known_secret_is_not_recorded_as_a_finding(known: bool) -> None:
    one = Exchange(
        policy_of(),
        Identity("box"),
        Destination("https", HOST, 443),
        knows=lambda text: known and "hunter2" in text,
    )
    one.begin(Request("POST", "/graphql", (("host", HOST), ("content-type", "application/json"))), NOW)
    one.inspect(envelope("{viewer hunter2}"))
    assert isinstance(one.inspect_end(), DenyRequest)
    facts = one.finish().facts
    assert facts["body"] == "graphql"
    assert facts["graphql_query"] == ("***" if known else "viewer hunter2")
    assert facts["body_item"] == ("***" if known else "query.hunter2")


def test_a_reload_judges_a_sent_request_by_its_facts() -> None:
    one = held(policy_of())
    assert one.would_begin(policy_of(), NOW)
    one.inspect(GOOD)
    one.inspect_end()
    assert one.would_begin(policy_of(), NOW)
    assert not one.would_begin(policy_of(more=", expires: 2001-01-01"), NOW)
    assert not one.would_begin(policy_of(field="other"), NOW)


def test_a_reload_while_the_body_is_held_counts_at_its_end() -> None:
    one = held(policy_of())
    one.inspect(GOOD[:-1])
    assert one.would_begin(policy_of(field="other"), NOW)
    one.inspect(GOOD[-1:])
    step = one.inspect_end()
    assert isinstance(step, DenyRequest)
    assert step.code == "access.withdrawn"
    assert one.finish().verdict is Verdict.DENY


def test_a_reload_that_changes_nothing_leaves_a_held_body_alone() -> None:
    one = held(policy_of())
    assert one.would_begin(policy_of(), NOW)
    one.inspect(GOOD)
    assert isinstance(one.inspect_end(), SendRequest)


def test_a_reload_leaves_a_push_alone_that_is_not_proven_yet() -> None:
    rule = f"{{id: p, git: {{push: {{repos: [a/b], refs: [{REF}]}}}}}}"
    text = f"version: 1\nhosts: {{{HOST}: {{allow: [{rule}]}}}}"
    policy = load([RuleText("hosts.yaml", text)], {}, None).policy
    assert policy is not None
    one = Exchange(policy, Identity("box"), Destination("https", HOST, 443))
    fields = (("host", HOST), ("content-type", "application/x-git-receive-pack-request"))
    assert one.begin(Request("POST", "/a/b/git-receive-pack", fields), NOW) == HoldBody()
    old, new = commit(), commit(commit().oid)
    assert one.inspect(command_lines((old.oid, new.oid, REF)) + b"PACK") == HoldBody()
    assert one.would_begin(policy, NOW)
    assert isinstance(one.inspect(pack_of(new)[4:]), SendRequest)
