"""The order of the steps: what each stage takes, what ends an exchange, and that no fault opens it."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping

import pytest

from egress.credentials import CredentialedHead
from egress.errors import CODES
from egress.exchange import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    Exchange,
    ExchangeRecord,
    NeedSecrets,
    OrderError,
    Request,
    Response,
    SendRequest,
    request_steps,
    response_body,
)
from egress.exchange import exchange as machines
from egress.exchange.exchange import LANE_ENDED_CODE, MAX_INTERIM_RESPONSES
from egress.exchange.messages import ExchangeStage, RecordBuilder
from egress.exchange.request_steps import Spend
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.limits import Key, LimitResult, take_request
from egress.scrub import MAX_HITS, Needles, Scrubber
from egress.types import Limit, Secret, Slot, Verdict
from tests.unit.exchange.sample import (
    FITTING,
    GITHUB_STAND_IN,
    HEAD,
    NEEDLES,
    NOW,
    PACK,
    POLICY,
    SANDBOX,
    SECRETS,
    STAND_IN,
    STAND_INS,
    STEPS,
    TOKEN,
    VALUES,
    Outcome,
    answered,
    bare_deflate,
    begun,
    denied,
    exchange,
    handling,
    policy_of,
    request,
    running,
    sent,
    told,
    values_of,
)

OK = Response(200, "OK", ())
GZIP = ("content-encoding", "gzip")
DEFLATE = ("content-encoding", "deflate")
MASKED = "*" * len(TOKEN)


# The stages -----------------------------------------------------------------------------------


def at_head() -> Exchange:
    return exchange(needles=NEEDLES)


def at_secrets() -> Exchange:
    one = at_head()
    assert isinstance(one.begin(request(), NOW), NeedSecrets)
    return one


def at_body() -> Exchange:
    one = running()
    answered(one.respond(OK))
    return one


def at_frames() -> Exchange:
    one = running(request("/live", upgrade=("websocket",)))
    answered(one.respond(Response(101, "", ())))
    return one


def ended() -> Exchange:
    one = at_body()
    one.end()
    return one


def refused() -> Exchange:
    one = at_head()
    denied(one.begin(request("/keys/1"), NOW))
    return one


def broken() -> Exchange:
    one = at_body()
    one._stage = ExchangeStage.BROKEN
    return one


STAGES: Mapping[str, Callable[[], Exchange]] = {
    "head": at_head,
    "secrets": at_secrets,
    "sent": running,
    "body": at_body,
    "frames": at_frames,
    "ended": ended,
    "refused": refused,
    "broken": broken,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_step_is_taken_in_its_stages_and_nowhere_else(stage: str, step: str) -> None:
    """The whole table: a misplaced step raises and ends the exchange for good."""
    one = STAGES[stage]()
    if step in FITTING.get(stage, FITTING["over"]):
        assert not isinstance(STEPS[step](one), CutExchange | DenyRequest)
        return
    with pytest.raises(OrderError):
        STEPS[step](one)
    assert_dead(one)


def assert_dead(one: Exchange) -> None:
    """Nothing is taken any more, and there is one record."""
    for step in STEPS.values():
        with pytest.raises(OrderError):
            step(one)
    one.abort("client.left")
    assert isinstance(one.finish(), ExchangeRecord)
    with pytest.raises(OrderError):
        one.finish()


@pytest.mark.parametrize("stage", STAGES)
def test_a_record_comes_once_out_of_every_stage(stage: str) -> None:
    one = STAGES[stage]()
    record = one.finish()
    cut = Verdict.CUT if stage in ("sent", "body", "frames", "broken") else Verdict.DENY
    assert record.verdict is (Verdict.ALLOW if stage == "ended" else cut)
    assert record.code == {"ended": "rule.allowed", "refused": "rule.denied"}.get(
        stage, "internal" if stage in ("head", "broken") else LANE_ENDED_CODE
    )
    assert_no_step(one)


def assert_no_step(one: Exchange) -> None:
    for step in STEPS.values():
        with pytest.raises(OrderError):
            step(one)
    with pytest.raises(OrderError):
        one.finish()


@pytest.mark.parametrize("stage", ["head", "secrets", "sent", "body", "frames"])
def test_a_lane_can_say_why_it_stopped(stage: str) -> None:
    one = STAGES[stage]()
    one.abort("client.left")
    record = one.finish()
    assert record.code == "client.left"
    assert record.status == (200 if stage == "body" else 101 if stage == "frames" else 0)
    assert record.verdict is (Verdict.DENY if stage == "head" else Verdict.ALLOW)


@pytest.mark.parametrize("code", sorted({*CODES, "client.left", LANE_ENDED_CODE, "of.tomorrow"}))
@pytest.mark.parametrize("stage", ["sent", "body", "frames"])
def test_an_end_is_allowed_only_where_a_peer_failed(stage: str, code: str) -> None:
    """Every other reason is an act of Egress, those that nobody has thought of included."""
    of_peers = {
        *("upstream.unresolved", "upstream.unreachable", "upstream.timeout", "upstream.closed"),
        "client.left",
    }
    for was_sent, stopped in ((True, Verdict.CUT), (False, Verdict.DENY)):
        one = STAGES[stage]()
        one.abort(code)
        record = one.finish(sent=was_sent)
        assert record.verdict is (Verdict.ALLOW if code in of_peers else stopped)
        assert record.code == code


@pytest.mark.parametrize("code", ["canary.seen", "upstream.unreachable"])
def test_nothing_is_cut_or_failed_before_the_head_was_handed_out(code: str) -> None:
    one = at_head()
    one.abort(code)
    assert one.finish(sent=True).verdict is Verdict.DENY


def test_a_lane_that_says_nothing_is_recorded_as_such() -> None:
    one = running()
    one.abort("")
    assert one.finish().code == LANE_ENDED_CODE


def test_what_ended_it_is_not_overwritten_by_what_follows() -> None:
    one = refused()
    one.abort("client.left")
    with pytest.raises(OrderError):
        one.respond(OK)
    assert one.finish().code == "rule.denied"


def test_a_step_behind_the_end_shows_in_the_record() -> None:
    one = ended()
    with pytest.raises(OrderError):
        one.request_data(b"x")
    record = one.finish()
    assert (record.code, record.status) == ("internal", 200)


def test_the_error_names_the_stage_and_nothing_of_the_request() -> None:
    with pytest.raises(OrderError, match="`secrets`") as caught:
        at_secrets().respond(OK)
    assert caught.value.code == "internal"


# Failing closed -------------------------------------------------------------------------------


class BoomError(Exception):
    """What nobody expected."""


def boom(*args: object, **named: object) -> object:
    raise BoomError


@pytest.mark.parametrize("name", ["decidable_head", "decide", "head_with_target", "smallest_limit"])
def test_a_fault_in_begin_leaves_no_way_to_send(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    one = at_head()
    with monkeypatch.context() as patch:
        patch.setattr(request_steps, name, boom)
        with pytest.raises(BoomError):
            one.begin(request("/items", method="POST") if name == "smallest_limit" else request(), NOW)
    assert_denied_and_dead(one)


@pytest.mark.parametrize("name", ["apply_credentials", "asking_for_plain", "can_find_injected"])
def test_a_fault_in_provide_leaves_no_way_to_send(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    one = at_secrets()
    with monkeypatch.context() as patch:
        patch.setattr(request_steps, name, boom)
        with pytest.raises(BoomError):
            one.provide(SECRETS, NEEDLES)
    assert_denied_and_dead(one)


def test_a_fault_while_counting_leaves_no_way_to_send() -> None:
    def spend(limits: tuple[Limit, ...]) -> LimitResult:
        raise BoomError

    one = Exchange(POLICY, SANDBOX, Destination("https", "slow.example.com", 443), spend=spend)
    with pytest.raises(BoomError):
        one.begin(request(host="slow.example.com"), NOW)
    assert_denied_and_dead(one)


def test_a_fault_in_the_placeholders_leaves_no_way_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    one = exchange("swap.wild.example.com", needles=NEEDLES, placeholders=STAND_INS)
    monkeypatch.setattr(type(STAND_INS), "find", boom)
    with pytest.raises(BoomError):
        one.begin(request(host="swap.wild.example.com"), NOW)
    assert_denied_and_dead(one)


def assert_denied_and_dead(one: Exchange) -> None:
    """`provide` is asked first: it is the step that would send, and any misplaced step ends it anyway."""
    for step in ("provide", *STEPS):
        with pytest.raises(OrderError):
            STEPS[step](one)
    record = one.finish()
    assert (record.verdict, record.code, record.status) == (Verdict.DENY, "internal", 500)
    assert record.injected == ()
    with pytest.raises(OrderError):
        one.finish()


@pytest.mark.parametrize(
    ("stage", "step", "where", "name"),
    [
        ("sent", "informational", machines, "cleaned_answer"),
        ("sent", "respond", machines, "cleaned_answer"),
        ("sent", "respond", machines, "ResponseBody"),
        ("sent", "respond", response_body, "Scrubber"),
        ("body", "data", Scrubber, "feed"),
        ("body", "end", Scrubber, "finish"),
        ("frames", "message", Scrubber, "finish"),
        ("body", "end", machines, "cleaned_trailers"),
        ("frames", "message", Scrubber, "feed"),
        ("frames", "control", Needles, "mask"),
    ],
)
def test_a_fault_in_the_response_lets_nothing_more_through(
    monkeypatch: pytest.MonkeyPatch, stage: str, step: str, where: object, name: str
) -> None:
    one = STAGES[stage]()
    with monkeypatch.context() as patch:
        patch.setattr(where, name, boom)
        with pytest.raises(BoomError):
            STEPS[step](one)
    for again in (step, *STEPS):
        with pytest.raises(OrderError):
            STEPS[again](one)
    assert one.finish().code == "internal"


def test_a_fault_is_not_renamed_by_the_lane() -> None:
    one = broken()
    one.abort("client.left")
    assert one.finish().code == "internal"


# The request ----------------------------------------------------------------------------------


def test_an_allowed_request_is_injected_and_sent() -> None:
    head = sent(begun(at_head(), request("/a?b=c", ("accept", "*/*"), ("authorization", "own"))))
    assert head.headers == (
        ("host", "api.example.com"),
        ("accept", "*/*"),
        ("authorization", f"Bearer {TOKEN}"),
        ("accept-encoding", "identity"),
    )
    assert (head.method, head.scheme, head.host, head.port) == ("GET", "https", "api.example.com", 443)
    assert head.target == "/a?b=c"
    assert type(head) is CredentialedHead
    assert TOKEN not in f"{head!r}{head}"


def test_what_was_matched_is_what_is_sent() -> None:
    assert sent(begun(at_head(), request("/%61/%7ex%2a?q=%61"))).target == "/a/~x%2A?q=%61"


def test_an_ordinary_request_is_sent_at_once_and_plainly() -> None:
    outcome = exchange("other.example.com").begin(request(host="OTHER.example.com."), NOW)
    assert sent(outcome).headers == (("host", "other.example.com"),)


def test_accept_encoding_goes_exactly_where_a_search_will_follow() -> None:
    asked = ("accept-encoding", "gzip")
    plain = sent(begun(exchange("other.example.com"), request("/", asked, host="other.example.com")))
    assert values_of(plain.headers, "accept-encoding") == ["gzip"]
    known = sent(
        begun(exchange("other.example.com", needles=NEEDLES), request("/", asked, host="other.example.com"))
    )
    assert values_of(known.headers, "accept-encoding") == ["identity"]
    off = sent(begun(exchange(policy=handling("scrub: off")), request("/", asked)))
    assert values_of(off.headers, "accept-encoding") == ["gzip"]


def test_range_goes_on() -> None:
    head = sent(begun(at_head(), request("/", ("range", "bytes=0-9"), ("if-range", '"1"'))))
    assert values_of(head.headers, "range") == ["bytes=0-9"]


def test_every_denial_of_the_head_is_a_known_code() -> None:
    for asked, code in [
        (request(host="evil.example"), "request.mismatch"),
        (request("/", ("host", "api.example.com")), "request.malformed"),
        (request(upgrade=("h2c",)), "request.upgrade"),
        (request("/keys/1"), "rule.denied"),
        (request("/a/../b"), "path.ambiguous"),
        (request(method="DELETE"), "rule.none"),
        (request(method="TRACE"), "method.refused"),
        (request("/", ("x-http-method-override", "DELETE")), "method.override"),
        (request("/a", upgrade=("websocket",)), "rule.websocket"),
    ]:
        one = at_head()
        assert denied(one.begin(asked, NOW)) == code
        record = one.finish()
        assert (record.verdict, record.code, record.status) == (Verdict.DENY, code, CODES[code].status)
        assert record.injected == ()


@pytest.mark.parametrize(
    "host", ["evil.example", "EVIL", "", "api.example.com.", "1.2.3.4", "::1", "\ud800", "a b"]
)
def test_a_destination_without_a_rule_is_denied(host: str) -> None:
    one = Exchange(POLICY, SANDBOX, Destination("https", host, 443))
    outcome = one.begin(Request("GET", "/", (), Destination("https", host, 443).authority), NOW)
    assert isinstance(outcome, DenyRequest)
    assert outcome.code in CODES


# Secrets --------------------------------------------------------------------------------------


def test_only_what_is_needed_is_asked_for() -> None:
    assert at_head().begin(request(), NOW) == NeedSecrets(("github",))
    hooks = exchange("hooks.example.com", needles=NEEDLES)
    assert hooks.begin(request(host="hooks.example.com"), NOW) == NeedSecrets(("deploy",))
    other = exchange("other.example.com", needles=NEEDLES)
    assert isinstance(other.begin(request(host="other.example.com"), NOW), SendRequest)


def test_a_secret_is_asked_for_once_and_in_the_order_of_the_rules() -> None:
    policy = policy_of(
        HEAD
        + """
  api.example.com:
    allow: all
    inject:
      - header: { name: x-b, secret: deploy }
      - header: { name: x-a, secret: github }
      - header: { name: x-c, secret: deploy }
"""
    )
    assert exchange(policy=policy).begin(request(), NOW) == NeedSecrets(("deploy", "github"))


SWAP = "swap.wild.example.com"


def swapping() -> Exchange:
    return exchange(SWAP, needles=NEEDLES, placeholders=STAND_INS)


def test_a_placeholder_is_swapped_where_it_stands() -> None:
    one = swapping()
    assert one.begin(request("/", ("x-key", f"Key {STAND_IN}"), host=SWAP), NOW) == NeedSecrets(("deploy",))
    head = sent(one.provide({"deploy": SECRETS["deploy"]}, NEEDLES))
    assert values_of(head.headers, "x-key") == [f"Key {VALUES['deploy'].decode()}"]
    assert one.finish().injected == (("deploy", Slot("header", "x-key")),)


def test_without_its_stand_in_no_secret_is_asked_for() -> None:
    one = swapping()
    assert sent(one.begin(request("/", ("x-key", "Key own"), host=SWAP), NOW)).headers[1] == (
        "x-key",
        "Key own",
    )


def test_of_two_placeholders_only_the_one_that_is_there_is_asked_for() -> None:
    policy = policy_of(
        HEAD
        + """
  api.example.com:
    allow: all
    inject:
      - placeholder: { secret: deploy, like: uuid, in: ["header:x-key"] }
      - placeholder: { secret: github, like: github, in: ["header:authorization"] }
"""
    )
    one = exchange(policy=policy, placeholders=STAND_INS)
    asked = request("/", ("authorization", f"token {GITHUB_STAND_IN}"))
    assert one.begin(asked, NOW) == NeedSecrets(("github",))
    head = sent(one.provide({"github": SECRETS["github"]}, NEEDLES))
    assert values_of(head.headers, "authorization") == [f"token {TOKEN}"]


@pytest.mark.parametrize("host", [SWAP, "other.example.com", "hooks.example.com"])
def test_a_placeholder_elsewhere_is_denied(host: str) -> None:
    one = exchange(host, needles=NEEDLES, placeholders=STAND_INS)
    assert denied(begun(one, request(f"/?k={STAND_IN}", host=host))) == "placeholder.misplaced"
    assert one.finish().injected == ()


def test_a_missing_secret_denies() -> None:
    one = at_head()
    assert denied(begun(one, request(), held=())) == "secret.unavailable"
    record = one.finish()
    assert (record.verdict, record.status, record.injected) == (Verdict.DENY, 403, ())


def test_an_empty_secret_denies() -> None:
    assert denied(at_secrets().provide({"github": Secret("github", b"")}, NEEDLES)) == "secret.unavailable"


def test_one_missing_secret_of_two_denies() -> None:
    policy = policy_of(
        HEAD
        + """
  api.example.com: { allow: all, inject: [{ bearer: github }, { query: { name: k, secret: deploy } }] }
"""
    )
    for held in (["github"], ["deploy"]):
        assert denied(begun(exchange(policy=policy), request(), held=held)) == "secret.unavailable"
    head = sent(begun(exchange(policy=policy), request()))
    assert head.target == "/?k=d3pl0y-Key-Of%2FThe%2BLab%3D"


def test_the_secret_of_another_name_denies() -> None:
    """A resolver that mixes up two names must not send one secret in place of another."""
    assert denied(at_secrets().provide({"github": SECRETS["deploy"]}, NEEDLES)) == "internal"


def test_the_secret_of_another_name_denies_where_nothing_is_searched_too() -> None:
    one = exchange(policy=handling("scrub: off"))
    assert one.begin(request(), NOW) == NeedSecrets(("github",), unscrubbed=True)
    assert denied(one.provide({"github": SECRETS["deploy"]}, None)) == "internal"


def test_secrets_that_were_not_asked_for_go_nowhere() -> None:
    head = sent(at_secrets().provide(SECRETS, NEEDLES))
    assert VALUES["deploy"].decode() not in str(head.headers)


@pytest.mark.parametrize(
    "needles",
    [
        None,
        Needles.of([SECRETS["deploy"]]),
        Needles.of([Secret("github", b"yesterday's value")]),
        Needles.of([Secret("other", VALUES["github"])]),
    ],
    ids=["none", "another secret", "an old value", "another name"],
)
def test_needles_that_would_not_find_what_was_injected_deny(needles: Needles) -> None:
    """They would not find it in the response either: nothing is sent, and nothing counts as injected."""
    one = at_secrets()
    assert denied(one.provide(SECRETS, needles)) == "internal"
    record = one.finish()
    assert (record.verdict, record.injected) == (Verdict.DENY, ())


def test_where_scrub_is_off_no_needles_are_needed() -> None:
    one = exchange(policy=handling("scrub: off"))
    assert isinstance(begun(one, request(), needles=None), SendRequest)


def test_an_expired_secret_denies() -> None:
    policy = policy_of(
        HEAD.replace("hosts: [api.example.com] }", "hosts: [api.example.com], expires: 2020-01-01 }")
        + "  api.example.com: { allow: all, inject: [{ bearer: github }] }\n"
    )
    assert denied(exchange(policy=policy).begin(request(), NOW)) == "secret.expired"


def test_an_existing_value_can_deny() -> None:
    policy = policy_of(
        HEAD + "  api.example.com: { allow: all, inject: [{ bearer: github, on_existing: fail }] }\n"
    )
    assert denied(begun(exchange(policy=policy), request("/", ("authorization", "own")))) == "secret.existing"
    assert isinstance(begun(exchange(policy=policy), request()), SendRequest)


def test_losing_what_was_injected_denies() -> None:
    """A rule may put a secret where we write ourselves; then it is not sent bare, it is not sent."""
    policy = policy_of(
        HEAD
        + """
  api.example.com: { allow: all, inject: [{ header: { name: accept-encoding, secret: github } }] }
"""
    )
    assert denied(begun(exchange(policy=policy), request())) == "internal"


# Limits ---------------------------------------------------------------------------------------


def counting() -> tuple[Spend, list[tuple[Limit, ...]]]:
    """A counter whose clock stands still, and what it was asked."""
    arrivals: dict[Key, int] = {}
    calls: list[tuple[Limit, ...]] = []

    def spend(limits: tuple[Limit, ...]) -> LimitResult:
        calls.append(limits)
        taken = take_request(arrivals, SANDBOX.sandbox, limits, 0)
        arrivals.update(taken.changes)
        return taken

    return spend, calls


def test_too_many_requests_are_denied_with_a_time_to_wait() -> None:
    spend, calls = counting()
    one = exchange("slow.example.com", spend=spend)
    assert isinstance(one.begin(request(host="slow.example.com"), NOW), SendRequest)
    two = exchange("slow.example.com", spend=spend)
    assert two.begin(request(host="slow.example.com"), NOW) == DenyRequest("limit.requests", 60)
    assert two.finish().status == 429
    assert len(calls) == 2


def test_a_request_that_is_denied_for_another_reason_takes_nothing() -> None:
    spend, calls = counting()
    denied(exchange(spend=spend).begin(request("/keys/1"), NOW))
    long = request("/items", ("content-length", "11"), method="POST")
    assert denied(exchange(spend=spend).begin(long, NOW)) == "limit.request_body"
    assert calls == []


def test_without_a_limit_nothing_is_counted() -> None:
    spend, calls = counting()
    begun(exchange(spend=spend), request())
    assert calls == []


def posting(*headers: tuple[str, str]) -> Exchange:
    one = exchange(needles=NEEDLES)
    sent(begun(one, request("/items", *headers, method="POST")))
    return one


def test_a_request_body_is_counted() -> None:
    one = posting()
    assert one.request_data(b"x" * 6) is None
    assert one.request_data(b"x" * 4) is None
    assert one.request_data(b"") is None
    assert one.request_data(b"x") == CutExchange("limit.request_body")
    record = one.finish()
    assert (record.code, record.status, record.bytes_up) == ("limit.request_body", 413, 10)
    assert record.verdict is Verdict.CUT


def test_a_stated_request_body_is_held_to_the_limit_before_anything_is_sent() -> None:
    assert isinstance(posting(("content-length", "10")), Exchange)
    one = exchange(needles=NEEDLES)
    assert (
        denied(one.begin(request("/items", ("content-length", "11"), method="POST"), NOW))
        == "limit.request_body"
    )


def test_a_response_body_is_counted() -> None:
    one = posting()
    assert told(one, [b"x" * 12, b"x" * 9]) == "limit.response_body"
    record = one.finish()
    assert (record.code, record.status, record.bytes_down) == ("limit.response_body", 200, 12)


def test_a_stated_response_body_is_held_to_the_limit() -> None:
    one = posting()
    assert told(one, [], ("content-length", "21")) == "limit.response_body"
    assert one.finish().status == 403
    assert isinstance(told(posting(), [b"x" * 20], ("content-length", "20")), Outcome)


def test_a_body_may_go_up_while_the_response_comes_down() -> None:
    one = posting()
    answered(one.respond(OK))
    assert one.request_data(b"abc") is None
    assert one.data(b"de") == [b"de"]
    assert one.end() == ([], ())
    record = one.finish()
    assert (record.bytes_up, record.bytes_down) == (3, 2)


def test_the_tightest_of_several_limits_counts() -> None:
    policy = policy_of(
        HEAD
        + """
  api.example.com:
    limits: { request_body: 5 }
    allow:
      - { id: a, paths: ["/**"], limits: { request_body: 9 } }
      - { id: b, methods: [POST], limits: { request_body: 7 } }
"""
    )
    one = exchange(policy=policy)
    sent(one.begin(request(method="POST"), NOW))
    assert one.request_data(b"x" * 6) == CutExchange("limit.request_body")


# The response ---------------------------------------------------------------------------------


def test_a_response_passes_whole() -> None:
    one = running()
    outcome = told(one, [b"hello ", b"", b"world"], ("content-length", "11"), trailers=(("x-sum", "1"),))
    assert outcome == Outcome(
        AnswerHead(200, "OK", (("content-length", "11"),)), b"hello world", (("x-sum", "1"),)
    )
    record = one.finish()
    assert (record.code, record.status, record.bytes_down) == ("rule.allowed", 200, 11)
    assert record.scrubbed == ()


def test_secrets_are_masked_in_head_body_and_trailers() -> None:
    one = running()
    outcome = told(
        one,
        [f"a {TOKEN[:9]}".encode(), f"{TOKEN[9:]} b".encode()],
        ("x-a", TOKEN),
        trailers=(("x-b", TOKEN),),
    )
    assert outcome == Outcome(
        AnswerHead(200, "OK", (("x-a", MASKED),)), f"a {MASKED} b".encode(), (("x-b", MASKED),)
    )
    assert one.finish().scrubbed == (("github", 3),)


def test_the_length_of_a_body_never_changes() -> None:
    outcome = told(running(), [TOKEN.encode()], ("content-length", str(len(TOKEN))))
    assert isinstance(outcome, Outcome)
    assert len(outcome.body) == len(TOKEN)


def test_a_response_to_a_request_without_a_secret_is_searched_too() -> None:
    """A host that knows the secret from another request may return it on this one."""
    outcome = told(running(host="other.example.com"), [TOKEN.encode()], ("set-cookie", "a=1"))
    assert isinstance(outcome, Outcome)
    assert outcome.body == MASKED.encode()
    assert outcome.head.headers == (("set-cookie", "a=1"),)


def test_block_cuts_in_the_head_in_the_body_and_in_the_trailers() -> None:
    policy = handling("scrub: block")
    assert told(running(policy=policy), [], ("x-a", TOKEN)) == "response.withheld"
    assert told(running(policy=policy), [b"fine", TOKEN.encode()]) == "response.withheld"
    assert told(running(policy=policy), [b"fine"], trailers=(("x-a", TOKEN),)) == "response.withheld"
    assert isinstance(told(running(policy=policy), [b"fine"]), Outcome)


def test_block_counts_what_it_found() -> None:
    one = running(policy=handling("scrub: block"))
    told(one, [b"fine", TOKEN.encode()])
    record = one.finish()
    assert (record.code, record.status, record.scrubbed) == ("response.withheld", 200, (("github", 1),))


def test_off_lets_everything_through() -> None:
    policy = handling("scrub: off, cookies: pass")
    outcome = told(running(policy=policy), [TOKEN.encode()], ("x-a", TOKEN), ("content-encoding", "gzip"))
    assert isinstance(outcome, Outcome)
    assert (outcome.body, values_of(outcome.head.headers, "x-a")) == (TOKEN.encode(), [TOKEN])


def test_a_body_that_cannot_be_there_is_cut() -> None:
    """HEAD, 204 and 304 end with their head; bytes behind it belong to nobody."""
    one = running(request(method="HEAD"))
    answered(one.respond(Response(200, "OK", (("content-length", "5"),), has_body=False)))
    assert one.data(b"") == []
    assert one.data(b"x") == CutExchange("upstream.malformed")


@pytest.mark.parametrize("status", [204, 304, 200])
def test_a_response_without_a_body_ends(status: int) -> None:
    one = running(request(method="HEAD"))
    answered(one.respond(Response(status, "", (("content-encoding", "gzip"),), has_body=False)))
    assert one.end() == ([], ())
    assert one.finish().status == status


@pytest.mark.parametrize("status", [-1, 0, 99, 100, 103, 199, 600, 999])
def test_a_final_head_has_a_final_status(status: int) -> None:
    assert running().respond(Response(status, "", ())) == CutExchange("upstream.malformed")


def test_a_switch_that_nobody_asked_for_is_cut() -> None:
    one = running()
    assert one.respond(Response(101, "", ())) == CutExchange("upstream.malformed")
    assert_dead(one)


def test_interim_heads_are_cleaned_and_change_nothing() -> None:
    one = running()
    hint = one.informational(
        Response(103, TOKEN, (("link", "</a>"), ("x-a", TOKEN), ("set-cookie", "a"), ("egress-a", "1")))
    )
    assert hint == AnswerHead(103, MASKED, (("link", "</a>"), ("x-a", MASKED)))
    assert isinstance(told(one, [b"x"]), Outcome)
    record = one.finish()
    assert (record.status, record.scrubbed) == (200, (("github", 2),))


@pytest.mark.parametrize("status", [0, 99, 101, 200, 404])
def test_what_is_not_interim_is_cut(status: int) -> None:
    assert running().informational(Response(status, "", ())) == CutExchange("upstream.malformed")


def test_interim_heads_do_not_go_on_for_ever() -> None:
    one = running()
    for _ in range(MAX_INTERIM_RESPONSES):
        answered(one.informational(Response(102, "", ())))
    assert one.informational(Response(102, "", ())) == CutExchange("upstream.malformed")


def test_an_interim_head_has_no_body_to_hold_against_it() -> None:
    fields = (("content-encoding", "gzip"), ("content-length", "9999"))
    assert answered(posting().informational(Response(103, "", fields))).headers == fields


def test_block_cuts_an_interim_head_with_a_secret() -> None:
    one = running(policy=handling("scrub: block"))
    assert one.informational(Response(103, "", (("x-a", TOKEN),))) == CutExchange("response.withheld")
    assert_dead(one)


# Coded responses ------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", PACK)
def test_a_coded_response_goes_out_decoded_and_masked(coding: str) -> None:
    one = running()
    packed = PACK[coding](f"a {TOKEN} b".encode())
    outcome = told(
        one,
        [packed[:7], b"", packed[7:]],
        ("content-encoding", coding),
        ("content-length", str(len(packed))),
        trailers=(("repr-digest", "x"), ("x-sum", "1")),
    )
    assert isinstance(outcome, Outcome)
    assert outcome.head.headers == ()
    assert outcome.head.coding is not None
    assert outcome.body == f"a {MASKED} b".encode()
    assert outcome.trailers == (("x-sum", "1"),)
    record = one.finish()
    assert (record.bytes_down, record.scrubbed) == (len(packed), (("github", 1),))


def test_digests_in_trailers_stay_where_nothing_was_decoded() -> None:
    outcome = told(running(), [b"a"], trailers=(("repr-digest", "x"),))
    assert isinstance(outcome, Outcome)
    assert outcome.trailers == (("repr-digest", "x"),)


def test_block_looks_into_a_coded_response() -> None:
    one = running(policy=handling("scrub: block"))
    assert told(one, [gzip.compress(TOKEN.encode())], GZIP) == "response.withheld"
    assert isinstance(told(running(policy=handling("scrub: block")), [gzip.compress(b"x")], GZIP), Outcome)


def test_a_coded_response_that_is_none_is_cut() -> None:
    packed = gzip.compress(b"hello")
    for chunks in ([b"hello"], [packed, b"x"], [packed[:-1]], [packed[:-1], b"\x07"]):
        one = running()
        assert told(one, chunks, GZIP) == "upstream.malformed"
        assert_dead(one)


def test_a_bomb_is_withheld() -> None:
    one = running()
    assert told(one, [gzip.compress(bytes(16 << 20))], GZIP) == "response.withheld"
    record = one.finish()
    assert (record.code, record.status) == ("response.withheld", 200)


def test_a_limit_counts_what_comes_and_what_it_decodes_to() -> None:
    """The bound of this rule is 20 bytes."""
    assert isinstance(told(posting(), [bare_deflate(b"x" * 20)], DEFLATE), Outcome)
    assert told(posting(), [bare_deflate(b"x" * 21)], DEFLATE) == "limit.response_body"
    assert told(posting(), [gzip.compress(b"x")], GZIP) == "limit.response_body"


def test_an_empty_coded_response_is_empty() -> None:
    outcome = told(running(), [], GZIP)
    assert isinstance(outcome, Outcome)
    assert (outcome.body, outcome.head.headers) == (b"", ())


def test_off_leaves_a_coded_response_as_it_is() -> None:
    packed = gzip.compress(TOKEN.encode())
    outcome = told(running(policy=handling("scrub: off, cookies: pass")), [packed], GZIP)
    assert isinstance(outcome, Outcome)
    assert (outcome.body, outcome.head.headers, outcome.head.coding) == (packed, (GZIP,), None)


def test_the_answer_to_head_names_no_coding_and_has_no_body() -> None:
    one = running(request(method="HEAD"))
    fields = (GZIP, ("content-length", "5"), ("vary", "accept-encoding"))
    answer = answered(one.respond(Response(200, "OK", fields, has_body=False)))
    assert answer.headers == (("vary", "accept-encoding"),)
    assert one.end() == ([], ())


def test_a_grpc_message_that_says_it_is_compressed_is_cut() -> None:
    """Its flag without `grpc-encoding` is an error, and whoever forgives it could read what we cannot."""
    message = b"\x01\x00\x00\x00\x02hi"
    assert told(running(), [message], ("content-type", "application/grpc")) == "upstream.malformed"


# WebSockets -----------------------------------------------------------------------------------


def test_a_websocket_is_asked_for_without_compression() -> None:
    one = at_head()
    asked = request(
        "/live",
        ("sec-websocket-key", "x"),
        ("sec-websocket-extensions", "permessage-deflate"),
        upgrade=("websocket",),
    )
    head = sent(begun(one, asked))
    assert head.websocket
    assert values_of(head.headers, "sec-websocket-extensions") == []
    assert values_of(head.headers, "sec-websocket-key") == ["x"]
    assert values_of(head.headers, "authorization") == [f"Bearer {TOKEN}"]


def test_a_server_that_refuses_the_switch_answers_as_always() -> None:
    one = running(request("/live", upgrade=("websocket",)))
    assert isinstance(told(one, [b"no"]), Outcome)


def test_a_message_is_masked_over_its_pieces_and_not_held_beyond_its_end() -> None:
    one = at_frames()
    first = one.message(f"a {TOKEN[:9]}".encode(), ends=False)
    last = one.message(f"{TOKEN[9:]} b {TOKEN[:3]}".encode(), ends=True)
    assert isinstance(first, list)
    assert isinstance(last, list)
    assert b"".join([*first, *last]) == f"a {MASKED} b {TOKEN[:3]}".encode()
    assert one.message(TOKEN[3:].encode(), ends=True) == [TOKEN[3:].encode()]
    assert one.message(b"", ends=True) == []
    one.end()
    assert one.finish().scrubbed == (("github", 1),)


def test_a_ping_in_the_middle_of_a_message_is_searched_on_its_own() -> None:
    one = at_frames()
    assert one.message(TOKEN[:9].encode(), ends=False) == []
    assert one.control(TOKEN.encode()) == MASKED.encode()
    assert one.control(b"") == b""
    pieces = one.message(TOKEN[9:].encode(), ends=True)
    assert isinstance(pieces, list)
    assert b"".join(pieces) == MASKED.encode()
    assert one.finish().scrubbed == (("github", 2),)


def test_frames_are_counted_both_ways() -> None:
    one = at_frames()
    one.request_data(b"12345")
    one.message(b"123", ends=True)
    one.control(b"12")
    one.end()
    record = one.finish()
    assert (record.bytes_up, record.bytes_down, record.status, record.code) == (5, 5, 101, "rule.allowed")


def live(text: str) -> Exchange:
    """A WebSocket on a host with this handling."""
    one = running(request("/", upgrade=("websocket",)), policy=handling(f"websocket: true, {text}"))
    answered(one.respond(Response(101, "", ())))
    return one


def test_frames_are_held_to_the_rules() -> None:
    assert live("scrub: block").message(TOKEN.encode(), ends=True) == CutExchange("response.withheld")
    assert live("scrub: block").control(TOKEN.encode()) == CutExchange("response.withheld")
    assert live("scrub: block").control(b"ping") == b"ping"
    assert live("scrub: block").message(b"hello", ends=True) == [b"hello"]
    assert live("scrub: off").control(TOKEN.encode()) == TOKEN.encode()
    assert live("scrub: off").message(TOKEN.encode(), ends=True) == [TOKEN.encode()]
    assert live("limits: { response_body: 3 }").message(b"1234", ends=True) == CutExchange(
        "limit.response_body"
    )
    assert live("limits: { response_body: 3 }").control(b"1234") == CutExchange("limit.response_body")
    assert live("limits: { request_body: 3 }").request_data(b"1234") == CutExchange("limit.request_body")


# The record -----------------------------------------------------------------------------------


def test_a_record_has_names_and_numbers() -> None:
    one = at_head()
    begun(one, request("/%61?token=hunter2", ("authorization", "own-value")))
    one.request_data(b"123")
    told(one, [TOKEN.encode()])
    record = one.finish()
    assert (record.method, record.path, record.identity.sandbox) == ("GET", "/a", "box")
    assert str(record.rule) == "api.example.com#read"
    assert record.place == (record.rule.place if record.rule else None)
    assert record.injected == (("github", Slot("header", "authorization")),)
    assert record.replaced
    assert (record.bytes_up, record.bytes_down) == (3, len(TOKEN))
    assert record.policy == POLICY.digest
    for word in (TOKEN, "hunter2", "own-value", "token="):
        assert word not in repr(record)


def test_a_record_names_the_slots_that_were_stripped() -> None:
    """Their names alone: a value of the sandbox's own is as good as a stranger's secret."""
    rules = policy_of("""
        version: 1
        secrets: {github: {from: "env:T", hosts: [api.example.com]}}
        hosts:
          api.example.com:
            allow: all
            inject: [{bearer: github, strip: ["header:x-api-key", "query:key"]}]
    """)
    one = exchange(policy=rules, needles=NEEDLES)
    head = sent(begun(one, request("/a?key=own-value&b=1", ("x-api-key", "own-value"))))
    assert head.target == "/a?b=1"
    assert values_of(head.headers, "x-api-key") == []
    record = one.finish()
    assert record.facts == {"stripped": "header:x-api-key, query:key"}
    assert "own-value" not in repr(record)
    quiet = exchange(policy=rules, needles=NEEDLES)
    begun(quiet, request("/a"))
    assert quiet.finish().facts == {}


def test_a_record_says_when_nothing_was_replaced() -> None:
    one = running()
    assert not one.finish().replaced


def test_a_path_with_a_secret_in_it_is_masked() -> None:
    """A sandbox that came to know the secret must not make the audit log keep it."""
    one = running(request(f"/{TOKEN}/x"))
    assert one.finish().path == f"/{MASKED}/x"
    early = at_head()
    early.begin(request(f"/{TOKEN}/../x"), NOW)
    assert TOKEN not in early.finish().path


def test_a_request_that_never_got_a_canonical_path_is_shown_with_its_own() -> None:
    one = at_head()
    one.begin(request("/a/../b?c"), NOW)
    assert one.finish().path == "/a/../b"


def test_what_was_never_decided_was_not_observed() -> None:
    record = at_head().finish()
    assert not record.observed
    assert (record.method, record.path, record.rule, record.place) == ("", "", None, None)


def test_an_observed_request_is_marked() -> None:
    one = exchange("new.example.com", policy=policy_of("version: 1\nmode: observe\n"))
    sent(one.begin(request(host="new.example.com"), NOW))
    record = one.finish()
    assert record.observed
    assert record.rule is None


def test_an_exchange_keeps_the_policy_it_began_with() -> None:
    one = at_secrets()
    assert one.finish().policy == POLICY.digest


def test_an_account_begins_empty_for_every_exchange() -> None:
    one, two = RecordBuilder(), RecordBuilder()
    one.found["github"] += 1
    assert two.found == {}


def test_a_denial_carries_the_reason_of_its_rule() -> None:
    rules = policy_of("""
        version: 1
        hosts:
          api.example.com:
            allow: all
            deny: [{id: no, paths: [/no], reason: "Closed for good."}, {id: mute, paths: [/mute]}]
    """)
    for path, reason in (("/no", "Closed for good."), ("/mute", ""), ("/no/../x", "")):
        step = exchange(policy=rules).begin(request(path), NOW)
        assert isinstance(step, DenyRequest)
        assert step.reason == reason


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_response_full_of_the_secret_is_masked_so_often_and_then_withheld(pieces: int) -> None:
    part = TOKEN.encode() + b" "
    outcome = told(running(), [part * (MAX_HITS // pieces)] * pieces)
    assert isinstance(outcome, Outcome)
    assert TOKEN.encode() not in outcome.body
    assert told(running(), [part * MAX_HITS, b"more: ", part, b"end"]) == "response.withheld"


def test_frames_full_of_the_secret_are_masked_so_often_and_then_withheld() -> None:
    one = live("scrub: mask")
    for _ in range(MAX_HITS):
        assert one.control(TOKEN.encode()) == b"*" * len(TOKEN)
    assert one.control(TOKEN.encode()) == CutExchange("response.withheld")


def test_a_head_full_of_the_secret_is_withheld() -> None:
    outcome = told(running(), [b"fine"], *[(f"x-{number}", TOKEN) for number in range(10)])
    assert isinstance(outcome, Outcome)
    assert all(value == "*" * len(TOKEN) for _, value in outcome.head.headers)
    # As many as fit: a head has 64 KiB.
    many = [(f"x-{number}", f"{TOKEN} " * 300 + TOKEN) for number in range(4)]
    assert told(running(), [b"fine"], *many) == "response.withheld"


def test_a_record_names_the_deny_that_the_file_lifts() -> None:
    shelf = {"p": "title: P\nhosts: {api.example.com: {allow: all, deny: [{id: no, paths: [/no]}]}}\n"}
    text = "version: 1\nuse: [{p: {}, without: [no]}]\n"
    rules = load([RuleText("hosts.yaml", text)], shelf).policy
    assert rules is not None
    one = exchange(policy=rules)
    begun(one, request("/no"))
    assert one.finish().facts == {"lifted": "api.example.com#p-no"}
    other = exchange(policy=rules)
    begun(other, request("/yes"))
    assert other.finish().facts == {}
