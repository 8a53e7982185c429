"""A handler is asked after the rules and before the secrets, and what it changes goes by the rules again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.exchange import (
    AllowByHandler,
    AnswerByHandler,
    AnswerRequest,
    CallHandler,
    DenyByHandler,
    DenyRequest,
    Destination,
    Exchange,
    HandlerFault,
    HandlerVerdict,
    HoldBody,
    NeedSecrets,
    Response,
    SendRequest,
)
from egress.exchange.request_steps import OrderError, RequestStep
from egress.inspect.mcp.sessions import McpSessions
from egress.rules.decide.limits import LimitResult
from egress.rules.decide.outbound import HandlerChoice, Outbound
from egress.rules.decide.overlay import Grant, GrantTerms, Overlay
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import parse_host_pattern
from egress.types import HandlerUse, Identity, Limit, Place, Verdict
from tests.unit.exchange.sample import HEAD, NEEDLES, NOW, SECRETS, TOKEN, exchange, policy_of, request

RULES = (
    HEAD
    + """
  api.example.com:
    allow:
      - { id: read, methods: [GET], paths: ["/items/**"], handler: { use: first, with: { team: blue } } }
      - { id: write, methods: [POST], paths: ["/items/**"], handler: { use: reader } }
      - { id: other, methods: [GET], paths: ["/other"], handler: { use: second } }
      - { id: both, methods: [GET], paths: ["/items/both"], handler: { use: second } }
      - { id: plain, methods: [GET], paths: ["/plain"], limits: { requests: 1/hour } }
      - { id: live, methods: [GET], paths: ["/live"], websocket: true, handler: { use: first } }
      - { id: graph, paths: ["/graphql"], graphql: { query: [viewer] }, handler: { use: reader } }
    deny:
      - { id: secret, paths: ["/items/secret"] }
    inject:
      - bearer: github
  tools.example.com:
    allow:
      - { id: tools, paths: ["/mcp"], mcp: { tools: [search] }, handler: { use: first } }
      - { id: clone, git: { fetch: ["acme/*"] }, handler: { use: first } }
  kv.internal: { virtual: true, handler: { use: first } }
  bare.internal: { virtual: true }
"""
)
OUTBOUND = Outbound({"first": 0, "second": 0, "reader": 100})
POLICY = replace(policy_of(RULES), outbound=OUTBOUND)


def asked(
    one: Exchange, target: str = "/items/1", *headers: tuple[str, str], method: str = "GET"
) -> CallHandler:
    """The call for a request without a body."""
    step = one.begin(request(target, *headers, method=method), NOW)
    if isinstance(step, HoldBody):
        step = one.inspect_end()
    assert isinstance(step, CallHandler), step
    return step


def after(verdict: HandlerVerdict, target: str = "/items/1", *, policy: Policy = POLICY) -> RequestStep:
    """The step that follows a verdict on a GET."""
    one = exchange(policy=policy, needles=NEEDLES)
    asked(one, target)
    return one.handled(verdict, b"", 3)


def code(step: RequestStep) -> str:
    assert isinstance(step, DenyRequest), step
    return step.code


def test_the_call_comes_before_the_secrets_and_says_what_a_handler_may_know() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    call = asked(one, "/items/1?a=b", ("x-a", "1"), ("authorization", "mine"), ("cookie", "c=d")).call
    assert call.use == HandlerUse("first", '{"team": "blue"}')
    assert (call.head.target, call.rule, call.secrets) == (
        "/items/1?a=b",
        "api.example.com#read",
        ("github",),
    )
    assert call.head.headers == (("host", "api.example.com"), ("x-a", "1"))
    assert not call.reads_body


def test_an_allowed_request_goes_on_to_its_secrets_and_the_record_says_so() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one)
    assert one.handled(AllowByHandler(), b"", 7) == NeedSecrets(("github",))
    record = one.finish()
    assert (record.facts["handler"], record.facts["handler_verdict"]) == ("first", "allow")
    assert record.facts["handler_ms"] == 7


def test_a_denial_has_its_reason_as_one_printable_line() -> None:
    step = after(DenyByHandler("not\nyet\x1b[31m " + "x" * 300))
    assert isinstance(step, DenyRequest)
    assert step.code == "handler.denied"
    assert step.reason.startswith("not yet [31m xxx")
    assert len(step.reason) <= 200


def test_a_reason_that_holds_a_secret_is_left_out() -> None:
    step = after(DenyByHandler(f"because of {TOKEN}"))
    assert (code(step), isinstance(step, DenyRequest) and step.reason) == ("handler.denied", "")


@pytest.mark.parametrize("kind", ["raised", "timeout", "value", "busy", "lost"])
def test_a_handler_without_a_verdict_denies(kind: str) -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one)
    assert code(one.handled(HandlerFault(kind), b"", 0)) == "handler.failed"
    record = one.finish()
    assert (record.verdict, record.facts["handler_verdict"]) == (Verdict.DENY, kind)


def test_a_step_without_a_verdict_leads_nowhere() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one)
    with pytest.raises(OrderError):
        one.provide({}, NEEDLES)
    fresh = exchange(policy=POLICY, needles=NEEDLES)
    with pytest.raises(OrderError):
        fresh.handled(AllowByHandler(), b"", 0)


# Changes


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (AllowByHandler(target="/items/2"), None),
        (AllowByHandler(set_headers=(("x-team", "blue"),)), None),
        (AllowByHandler(target="/items/secret"), "rule.denied"),
        (AllowByHandler(target="/elsewhere"), "rule.none"),
        (AllowByHandler(target="/items/../secret"), "path.ambiguous"),
        (AllowByHandler(method="DELETE"), "rule.none"),
        (AllowByHandler(method="CONNECT"), "method.refused"),
        (AllowByHandler(method="HEAD"), "handler.refused"),
        (AllowByHandler(target="/other"), "handler.refused"),
        (AllowByHandler(target="/items/both"), "handler.ambiguous"),
        (AllowByHandler(target="http://evil.example.com/"), "handler.refused"),
        (AllowByHandler(target="/a b"), "handler.refused"),
        (AllowByHandler(target="/a\r\nx: y"), "handler.refused"),
        (AllowByHandler(set_headers=(("authorization", "Bearer x"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("cookie", "a=b"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("host", "evil.example.com"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("transfer-encoding", "chunked"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("content_length", "5"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("connection", "x-a"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("proxy-authorization", "x"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("x-a", "1\r\nx-b: 2"),)), "handler.refused"),
        (AllowByHandler(set_headers=(("X-A", "1"),)), "handler.refused"),
        (AllowByHandler(removed=frozenset({"host"})), "handler.refused"),
        (AllowByHandler(set_headers=(("x-a", TOKEN),)), "handler.refused"),
        (AllowByHandler(target=f"/items/{TOKEN}"), "handler.refused"),
        (AllowByHandler(body=b"new"), "handler.refused"),
        (AllowByHandler(set_headers=(("x-http-method-override", "DELETE"),)), "method.override"),
    ],
)
def test_a_change_is_judged_like_a_request_of_the_sandbox(
    change: AllowByHandler, expected: str | None
) -> None:
    step = after(change)
    if expected is None:
        assert step == NeedSecrets(("github",))
    else:
        assert code(step) == expected


def test_the_changed_request_is_the_one_that_is_sent() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one, "/items/1", ("x-old", "1"), ("x-team", "red"), ("x-team", "green"))
    change = AllowByHandler(
        target="/items/2?q=1", set_headers=(("x-team", "blue"),), removed=frozenset({"x-old"})
    )
    step = one.handled(change, b"", 0)
    assert isinstance(step, NeedSecrets)
    sent = one.provide({"github": SECRETS["github"]}, NEEDLES)
    assert isinstance(sent, SendRequest)
    assert sent.head.target == "/items/2?q=1"
    names = [name for name, _ in sent.head.headers]
    assert names.count("x-team") == 1
    assert ("x-team", "blue") in sent.head.headers
    assert "x-old" not in names
    assert ("authorization", f"Bearer {TOKEN}") in sent.head.headers


def test_a_change_counts_for_the_limits_of_the_rule_that_it_leads_to() -> None:
    counted: list[tuple[Limit, ...]] = []

    def spend(limits: tuple[Limit, ...]) -> LimitResult:
        counted.append(limits)
        return LimitResult(allowed=False)

    one = exchange(policy=POLICY, needles=NEEDLES, spend=spend)
    asked(one)
    step = one.handled(AllowByHandler(target="/plain"), b"", 0)
    assert code(step) == "limit.requests"
    assert len(counted) == 1


# Bodies


def test_a_body_is_gathered_whole_up_to_the_bound_of_the_handler() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    assert isinstance(one.begin(request("/items/1", method="POST"), NOW), HoldBody)
    assert isinstance(one.inspect(b"x" * 60), HoldBody)
    assert isinstance(one.inspect(b"x" * 40), HoldBody)
    step = one.inspect_end()
    assert isinstance(step, CallHandler)
    assert step.call.reads_body
    late = exchange(policy=POLICY, needles=NEEDLES)
    late.begin(request("/items/1", method="POST"), NOW)
    assert code(late.inspect(b"x" * 101)) == "body.too_large"
    stated = exchange(policy=POLICY, needles=NEEDLES)
    assert (
        code(stated.begin(request("/items/1", ("content-length", "101"), method="POST"), NOW))
        == "body.too_large"
    )


def test_a_body_that_was_read_may_be_replaced_and_is_then_sent_instead() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    one.begin(request("/items/1", method="POST"), NOW)
    one.inspect(b"old")
    one.inspect_end()
    step = one.handled(AllowByHandler(body=b"new"), b"old", 0)
    assert isinstance(step, NeedSecrets)
    sent = one.provide({"github": SECRETS["github"]}, NEEDLES)
    assert isinstance(sent, SendRequest)
    assert sent.body == b"new"


GRAPH = ("content-type", "application/json")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"query": "{viewer{login}}"}', None),
        (b'{"query": "mutation{drop}"}', "graphql.field"),
        (b"not json", "body.json"),
    ],
)
def test_a_body_that_rules_read_is_read_again_after_a_change(body: bytes, expected: str | None) -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    was = b'{"query": "{viewer{id}}"}'
    assert isinstance(one.begin(request("/graphql", GRAPH, method="POST"), NOW), HoldBody)
    step = one.inspect(was)
    step = one.inspect_end() if isinstance(step, HoldBody) else step
    assert isinstance(step, CallHandler)
    assert step.call.facts["graphql_query"] == "viewer"
    changed = one.handled(AllowByHandler(body=body), was, 0)
    assert changed == NeedSecrets(("github",)) if expected is None else code(changed) == expected


TOOLS_HOST = "tools.example.com"
MARKED = AllowByHandler(set_headers=(("x-team", "blue"),))


def told(method: str, verdict: HandlerVerdict, sessions: McpSessions) -> tuple[Exchange, RequestStep]:
    """An exchange of MCP whose handler says this, and the step that follows."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % method.encode()
    one = exchange(TOOLS_HOST, policy=POLICY)
    one.sessions = sessions
    one.begin(request("/mcp", GRAPH, method="POST", host=TOOLS_HOST), NOW)
    one.inspect(body)
    assert isinstance(one.inspect_end(), CallHandler)
    return one, one.handled(verdict, body, 0)


@pytest.mark.parametrize("verdict", [AllowByHandler(), MARKED])
def test_the_answer_to_a_request_that_a_handler_changed_is_filtered_as_well(verdict: AllowByHandler) -> None:
    one, step = told("tools/list", verdict, McpSessions())
    assert isinstance(step, SendRequest)
    one.respond(Response(200, "", (GRAPH,), has_body=True))
    listed = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search"},{"name":"drop"}]}}'
    assert one.data(listed) == []
    assert one.end() == ([b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search"}]}}'], ())
    assert one.finish().facts["mcp_hidden"] == 1


@pytest.mark.parametrize("verdict", [AllowByHandler(), MARKED])
def test_a_session_begins_and_is_asked_for_whatever_a_handler_changes(verdict: AllowByHandler) -> None:
    sessions = McpSessions()
    one, _ = told("initialize", verdict, sessions)
    one.respond(Response(200, "", (GRAPH, ("mcp-session-id", "own")), has_body=True))
    assert sessions.find(TOOLS_HOST, 443, "own") is not None
    for session, expected in (("own", ""), ("another", "mcp.session")):
        _, step = told("ping", AllowByHandler(set_headers=(("mcp-session-id", session),)), sessions)
        assert (step.code if isinstance(step, DenyRequest) else "") == expected


@pytest.mark.parametrize(
    ("repo", "expected"), [("acme/app", ""), ("acme/docs", ""), ("other/app", "git.repository")]
)
def test_a_request_whose_head_says_it_all_may_be_changed(repo: str, expected: str) -> None:
    target = "/{}.git/info/refs?service=git-upload-pack"
    one = exchange(TOOLS_HOST, policy=POLICY)
    assert isinstance(one.begin(request(target.format("acme/app"), host=TOOLS_HOST), NOW), CallHandler)
    step = one.handled(replace(MARKED, target=target.format(repo)), b"", 0)
    assert (step.code if isinstance(step, DenyRequest) else "") == expected


# Answers, and hosts without an upstream


def test_an_answer_ends_the_request_without_a_secret() -> None:
    step = after(AnswerByHandler(201, (("x-a", "1"),), b"made"))
    assert isinstance(step, AnswerRequest)
    assert (step.response.status, step.body) == (201, b"made")


@pytest.mark.parametrize(
    "answer",
    [
        AnswerByHandler(101, (), b""),
        AnswerByHandler(99, (), b""),
        AnswerByHandler(600, (), b""),
        AnswerByHandler(204, (), b"body"),
        AnswerByHandler(200, (("content-length", "9"),), b""),
        AnswerByHandler(200, (("transfer-encoding", "chunked"),), b""),
        AnswerByHandler(200, (("content-encoding", "gzip"),), b"x"),
        AnswerByHandler(200, (("x-a", "1\r\n\r\nHTTP/1.1 200 OK"),), b""),
        AnswerByHandler(200, (), TOKEN.encode()),
        AnswerByHandler(200, (("x-a", TOKEN),), b""),
    ],
)
def test_an_answer_that_frames_or_leaks_is_refused(answer: AnswerByHandler) -> None:
    assert code(after(answer)) == "handler.refused"


def test_a_virtual_host_is_answered_or_denied_and_never_sent() -> None:
    def asked_of(host: str, verdict: HandlerVerdict) -> RequestStep:
        one = exchange(host, policy=POLICY)
        step = one.begin(request(host=host), NOW)
        return one.handled(verdict, b"", 0) if isinstance(step, CallHandler) else step

    assert isinstance(asked_of("kv.internal", AnswerByHandler(200, (), b"v")), AnswerRequest)
    assert code(asked_of("kv.internal", AllowByHandler())) == "handler.missing"
    assert code(asked_of("kv.internal", AllowByHandler(target="/b"))) == "handler.missing"
    assert code(asked_of("bare.internal", AllowByHandler())) == "handler.missing"


# Which handler


def test_a_handler_that_is_not_loaded_denies() -> None:
    one = exchange(policy=policy_of(RULES), needles=NEEDLES)
    assert code(one.begin(request("/items/1"), NOW)) == "handler.missing"


def test_two_rules_with_different_handlers_deny() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    assert code(one.begin(request("/items/both"), NOW)) == "handler.ambiguous"


def test_a_choice_never_takes_the_place_of_the_handler_of_a_rule() -> None:
    everything = HandlerChoice(
        {parse_host_pattern("api.example.com"): HandlerUse("second")}, HandlerUse("second")
    )
    for outbound in (
        replace(OUTBOUND, static=everything),
        OUTBOUND.with_choice("box", everything),
    ):
        policy = replace(POLICY, outbound=outbound)
        assert asked(exchange(policy=policy, needles=NEEDLES)).call.use.name == "first"
        assert asked(exchange(policy=policy, needles=NEEDLES), "/plain").call.use.name == "second"


def test_new_rules_that_forbid_the_request_while_its_handler_runs_end_it() -> None:
    stricter = replace(policy_of(RULES.replace("/items/**", "/never/**")), outbound=OUTBOUND)
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one)
    assert one.would_begin(POLICY, NOW)
    assert not one.would_begin(stricter, NOW)
    # What the handler makes of it is judged by them, too.
    narrow = replace(policy_of(RULES.replace('"/items/**"', '"/items/1"')), outbound=OUTBOUND)
    one = exchange(policy=POLICY, needles=NEEDLES)
    asked(one)
    assert one.would_begin(narrow, NOW)
    assert code(one.handled(AllowByHandler(target="/items/2"), b"", 0)) == "access.withdrawn"


def test_a_websocket_is_asked_about_and_its_handshake_stays() -> None:
    one = exchange(policy=POLICY, needles=NEEDLES)
    step = one.begin(request("/live", upgrade=("websocket",)), NOW)
    assert isinstance(step, CallHandler)
    assert step.call.head.websocket
    assert code(one.handled(AllowByHandler(method="POST"), b"", 0)) == "handler.refused"


@pytest.mark.parametrize(("ticket", "profile"), [("", "trial"), ("t1", "web")])
def test_a_handler_knows_the_profile_that_was_chosen_for_the_sandbox(ticket: str, profile: str) -> None:
    rules = RULES + "profiles: { trial: { hosts: [api.example.com] }, web: { hosts: [api.example.com] } }\n"
    identity = Identity("box", "web")
    chosen = Grant("g1", GrantTerms("profile", 60, profile="trial"), NOW + 60, "d", Place("hosts.yaml", 1, 1))
    policy = replace(policy_of(rules), outbound=OUTBOUND, overlays={"box": Overlay(identity, (chosen,))})
    one = Exchange(policy, replace(identity, ticket=ticket), Destination("https", "api.example.com", 443))
    assert asked(one).call.identity.profile == profile
