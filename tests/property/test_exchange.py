"""The exchange under steps in any order, heads of any bytes and bodies in any pieces."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import urljoin, urlsplit

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from egress.errors import CODES, WireError
from egress.exchange import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    Exchange,
    NeedSecrets,
    OrderError,
    Request,
    Response,
    SendRequest,
)
from egress.exchange.request import names_destination
from egress.exchange.request_steps import RequestStep
from egress.exchange.response import carries_credential, stays_at_destination
from egress.http1.fields import CheckedFields, read_fields
from egress.rules.decide.decision import decide
from egress.rules.decide.limits import LimitResult
from egress.scrub import Needles
from egress.types import Head, Headers, Limit, Scheme, Secret, Verdict
from tests.tiers import examples
from tests.unit.exchange.sample import (
    FITTING,
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
    VALUES,
    Outcome,
    bare_deflate,
    begun,
    exchange,
    handling,
    policy_of,
    request,
    running,
    told,
)

MARK = "q7marker"
"""What the sandbox writes into queries and header values; no record may repeat it."""

HOSTS = [
    "api.example.com",
    "api.example.com",
    "api.example.com",
    "api.example.com",
    "hooks.example.com",
    "swap.wild.example.com",
    "other.example.com",
    "slow.example.com",
    "odd.example.com",
    "plain.example.com",
    "evil.example",
    "example.com",
]
TEXT = st.text(max_size=12)
WIRE = st.text(st.characters(max_codepoint=255), max_size=12)
PIECES = [value[at:end] for value in VALUES.values() for at, end in ((0, 9), (9, None), (0, None), (3, 12))]
BODY = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=6).map(b"".join)

NAMES = [
    "accept",
    "authorization",
    "x-key",
    "x_key",
    "cookie",
    "connection",
    "content-length",
    "range",
    "te",
    "Host",
]
FIELD_VALUES = st.one_of(
    st.sampled_from(
        [
            MARK,
            f"Bearer {MARK}",
            STAND_IN,
            "close, authorization",
            "close, host",
            "5",
            "11",
            "\xb2",
            "a\r\nb: c",
        ]
    ),
    WIRE,
)
FIELDS = st.tuples(st.sampled_from(NAMES), FIELD_VALUES)
TARGETS = st.sampled_from(
    [
        "/",
        "/items",
        "/live",
        "/keys/1",
        f"/a?x={MARK}",
        f"/a#x={MARK}",
        "/a/../b",
        "//x",
        "*",
        "",
        f"/?k={STAND_IN}",
        "é",
    ]
)
GOOD_TARGETS = st.sampled_from(["/", "/%61%2a", "/live", f"/a?x={MARK}"])
METHODS = st.sampled_from(["GET", "HEAD", "POST", "DELETE", "CONNECT", "get", f"GET /?{MARK}", ""])


@st.composite
def requests(draw: st.DrawFn, destination: Destination) -> Request:
    """Requests to a destination with any fields, and at most one flaw elsewhere."""
    host = destination.authority
    flaw = draw(st.sampled_from(["", "", "", "hosts", "authority", "upgrade", "scheme", "method", "target"]))
    hosts = [[host, host], [], ["evil.example"], [host.upper() + "."], [f"{host}@evil.example"]]
    return Request(
        draw(METHODS) if flaw == "method" else "GET",
        draw(TARGETS if flaw == "target" else GOOD_TARGETS),
        (
            *(("host", one) for one in (draw(st.sampled_from(hosts)) if flaw == "hosts" else [host])),
            *draw(st.lists(FIELDS, max_size=3)),
        ),
        draw(st.sampled_from([host.upper(), "evil.example"])) if flaw == "authority" else "",
        draw(st.sampled_from([("websocket",), ("h2c",)])) if flaw == "upgrade" else (),
        draw(st.sampled_from(["https", "http"])) if flaw == "scheme" else "",
    )


@st.composite
def responses(draw: st.DrawFn) -> Response:
    """Heads of an upstream that knows the secrets."""
    texts = st.one_of(
        st.sampled_from(list(VALUES.values())).map(bytes.decode), st.sampled_from(["gzip", "zstd"]), WIRE
    )
    names_of = st.sampled_from(
        ["x-a", "location", "set-cookie", "egress-x", "content-encoding", "content-length"]
    )
    fields = draw(st.lists(st.tuples(names_of, texts), max_size=3))
    status = draw(st.sampled_from([200, 200, 200, 101, 101, 103, 204, 302, 500, 0, 999]))
    return Response(status, draw(texts), tuple(fields), draw(st.booleans()))


def leaks(text: str) -> bool:
    """Whether any secret stands in the text as it is."""
    return any(value.decode() in text for value in VALUES.values())


class AnyOrder(RuleBasedStateMachine):
    """A lane that mostly keeps the order, until it does not; a sandbox and an upstream that are hostile."""

    @initialize(
        host=st.sampled_from(HOSTS),
        port=st.sampled_from([443, 443, 443, 443, 443, 443, 80, 8443]),
        full=st.booleans(),
        ready=st.sampled_from(["", "/", "/live"]),
    )
    def opens(self, host: str, port: int, *, full: bool, ready: str) -> None:
        scheme: Scheme = "http" if port == 80 else "https"
        self.destination = Destination(scheme, host, port)

        def spend(limits: tuple[Limit, ...]) -> LimitResult:
            return LimitResult(allowed=not full)

        self.one = Exchange(
            POLICY, SANDBOX, self.destination, placeholders=STAND_INS, needles=NEEDLES, spend=spend
        )
        self.stage = "head"
        self.sends = 0
        self.out = b""
        if ready:
            self.begins_well(ready, switch=ready == "/live")
        if self.stage == "secrets":
            self.provides(set(VALUES), NEEDLES)

    # The request

    @precondition(lambda self: self.stage == "head")
    @rule(path=st.sampled_from(["/", f"/a?x={MARK}", "/live"]), switch=st.booleans())
    def begins_well(self, path: str, *, switch: bool) -> None:
        to = self.destination.authority
        field = ("x-key", STAND_IN) if self.destination.host.startswith("swap") else ("accept", MARK)
        self.asks(
            self.one.begin(request(path, field, host=to, upgrade=("websocket",) if switch else ()), NOW)
        )

    @precondition(lambda self: self.stage == "head")
    @rule(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        self.asks(self.one.begin(data.draw(requests(self.destination)), NOW))

    @precondition(lambda self: self.stage == "secrets")
    @rule(
        held=st.sampled_from([set(VALUES), set(VALUES), set(VALUES), {"deploy"}, set[str]()]),
        needles=st.sampled_from([NEEDLES, NEEDLES, NEEDLES, Needles({})]),
    )
    def provides(self, held: set[str], needles: Needles) -> None:
        self.asks(self.one.provide({name: SECRETS[name] for name in held}, needles))

    def asks(self, outcome: RequestStep) -> None:
        assert self.sends == 0
        if isinstance(outcome, DenyRequest):
            assert outcome.code in CODES
            self.stage = "over"
        elif isinstance(outcome, NeedSecrets):
            self.stage = "secrets"
        else:
            assert isinstance(outcome, SendRequest), "no rule of these asks for a body"
            self.sends += 1
            self.stage = "sent"
            self.check(outcome.head)

    def check(self, head: Head) -> None:
        """What is sent goes to the destination, was allowed, and carries only what is bound there."""
        to = self.destination
        assert (head.scheme, head.host, head.port) == (to.scheme, to.host, to.port)
        assert [value for name, value in head.headers if name == "host"] == [to.authority]
        assert all(name == name.lower() for name, _ in head.headers)
        text = head.target + "".join(value for _, value in head.headers)
        for name, value in VALUES.items():
            if value.decode() in text:
                assert head.scheme == "https"
                assert POLICY.secrets[name].is_bound_to(head.host, head.port)
        bare = Head(head.method, head.scheme, head.host, head.port, head.target, head.headers, head.websocket)
        decision = decide(POLICY, SANDBOX, bare, NOW)
        assert decision.allowed
        assert decision.target == head.target, "what is sent is not what was matched"

    # The response

    @precondition(lambda self: self.stage == "sent")
    @rule(response=responses(), final=st.booleans())
    def is_told(self, response: Response, *, final: bool) -> None:
        answer = self.one.respond(response) if final else self.one.informational(response)
        self.passes(answer if isinstance(answer, CutExchange) else None)
        if isinstance(answer, AnswerHead):
            assert not leaks(answer.reason + str(answer.headers))
            assert not any(name.startswith("egress-") for name, _ in answer.headers)
            if final:
                self.stage = "frames" if answer.status == 101 else "body"

    @precondition(lambda self: self.stage == "sent")
    @rule(switch=st.booleans())
    def is_told_well(self, *, switch: bool) -> None:
        self.is_told(Response(101 if switch else 200, "OK", (("x-a", "1"),)), final=True)

    @precondition(lambda self: self.stage in ("sent", "body", "frames"))
    @rule(chunk=BODY)
    def sends_data(self, chunk: bytes) -> None:
        self.passes(self.one.request_data(chunk))

    @precondition(lambda self: self.stage == "body")
    @rule(chunk=BODY)
    def gets_data(self, chunk: bytes) -> None:
        self.passes(self.one.data(chunk))

    @precondition(lambda self: self.stage == "frames")
    @rule(chunk=BODY, ends=st.booleans(), is_control=st.booleans())
    def gets_frames(self, chunk: bytes, *, ends: bool, is_control: bool) -> None:
        self.passes(self.one.control(chunk) if is_control else self.one.message(chunk, ends=ends))

    @precondition(lambda self: self.stage in ("body", "frames"))
    @rule(trailers=st.lists(st.tuples(st.sampled_from(["x-a", "set-cookie", "Egress"]), WIRE), max_size=2))
    def ends(self, trailers: list[tuple[str, str]]) -> None:
        outcome = self.one.end(tuple(trailers))
        self.passes(outcome if isinstance(outcome, CutExchange) else outcome[0])
        self.stage = "over"

    def passes(self, outcome: list[bytes] | bytes | CutExchange | None) -> None:
        assert self.sends == 1, "something came back although nothing was sent"
        if isinstance(outcome, CutExchange):
            assert outcome.code in CODES
            self.stage = "over"
        elif outcome:
            self.out += outcome if isinstance(outcome, bytes) else b"".join(outcome)
            assert not any(value in self.out for value in VALUES.values())

    # Out of order

    @rule(step=st.sampled_from(sorted(STEPS)), is_rare=st.integers(0, 7))
    def misplaces(self, step: str, is_rare: int) -> None:
        if step in FITTING[self.stage] or (is_rare != 5 and self.stage != "over"):
            return
        try:
            STEPS[step](self.one)
        except OrderError:
            self.stage = "over"
            return
        raise AssertionError(f"{step} was taken in the stage {self.stage}")

    @rule(is_rare=st.integers(0, 7))
    def aborts(self, is_rare: int) -> None:
        if is_rare == 5:
            self.one.abort("client.left")
            self.stage = "over"

    def teardown(self) -> None:
        record = self.one.finish()
        assert (record.verdict is Verdict.CUT) <= (self.sends == 1)
        assert (record.verdict is Verdict.DENY) <= (self.sends == 0)
        if record.verdict is Verdict.ALLOW:
            is_complete = record.code == "rule.allowed" and self.sends == 1
            assert is_complete or record.code == "client.left"
        assert record.code
        assert self.sends or not record.injected
        assert MARK not in repr(record)
        assert not leaks(repr(record))
        for step in (*STEPS.values(), Exchange.finish):
            try:
                step(self.one)
            except OrderError:
                continue
            raise AssertionError("an exchange went on behind its record")


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(150), stateful_step_count=20)

ANY_FIELDS = st.lists(
    st.tuples(st.one_of(st.sampled_from(["host", "content-length"]), TEXT), TEXT), max_size=4
)


@given(TEXT, TEXT, ANY_FIELDS.map(tuple), TEXT, st.lists(TEXT, max_size=2).map(tuple), TEXT)
@example("GET", "/", (("host", "api.example.com"), ("content-length", "\xb2")), "", (), "")
@example("GET", "/", (("host", "api.example.com"), ("content-length", "9" * 5000)), "", (), "")
def test_any_request_gets_an_answer(
    method: str, target: str, headers: Headers, authority: str, upgrade: tuple[str, ...], scheme: str
) -> None:
    one = exchange(needles=NEEDLES, placeholders=STAND_INS)
    outcome = one.begin(Request(method, target, headers, authority, upgrade, scheme), NOW)
    assert not isinstance(outcome, DenyRequest) or outcome.code in CODES
    assert one.finish().verdict is (Verdict.CUT if isinstance(outcome, SendRequest) else Verdict.DENY)


@given(st.integers(), TEXT, ANY_FIELDS.map(tuple), st.booleans(), ANY_FIELDS.map(tuple))
@example(200, "", (("content-length", "\xb2"),), True, ())
@example(200, "", (("content-length", "9" * 5000),), True, ())
def test_any_response_gets_an_answer(
    status: int, reason: str, headers: Headers, has_body: bool, trailers: Headers
) -> None:
    one = running()
    answer = one.respond(Response(status, reason, headers, has_body))
    if isinstance(answer, AnswerHead):
        assert isinstance(one.end(trailers), tuple | CutExchange)
    else:
        assert answer.code in CODES
    one.finish()


@given(BODY, st.lists(st.integers(0, 60), max_size=8))
def test_a_body_is_masked_alike_in_any_pieces(body: bytes, cuts: list[int]) -> None:
    outcome = told(running(), in_pieces(body, cuts))
    assert isinstance(outcome, Outcome)
    assert outcome.body == NEEDLES.mask(body).data


@given(BODY, st.lists(st.integers(0, 60), max_size=8))
def test_block_lets_no_secret_through_in_any_pieces(body: bytes, cuts: list[int]) -> None:
    outcome = told(running(policy=BLOCKING), in_pieces(body, cuts))
    if NEEDLES.mask(body).hits:
        assert outcome == "response.withheld"
    else:
        assert isinstance(outcome, Outcome)
        assert outcome.body == body


CODED = st.sampled_from([*PACK.items(), ("deflate", bare_deflate)])


@given(BODY, CODED, st.lists(st.integers(0, 90), max_size=8), st.booleans())
def test_a_coded_body_is_decoded_and_masked_alike_in_any_pieces(
    body: bytes, coded: tuple[str, Callable[[bytes], bytes]], cuts: list[int], twice: bool
) -> None:
    coding, pack = coded
    packed = pack(body)
    if twice and coding in ("gzip", "zstd"):
        packed, body = packed + packed, body + body
    outcome = told(running(), in_pieces(packed, cuts), ("content-encoding", coding))
    assert isinstance(outcome, Outcome)
    assert outcome.body == NEEDLES.mask(body).data
    assert outcome.head.coding


@given(st.binary(max_size=40), BODY, CODED, st.lists(st.integers(0, 90), max_size=8), st.integers(0, 60))
def test_any_bytes_called_coded_give_a_body_or_a_cut(
    noise: bytes,
    body: bytes,
    coded: tuple[str, Callable[[bytes], bytes]],
    cuts: list[int],
    at: int,
) -> None:
    coding, pack = coded
    packed = pack(body)
    for wire in (noise, packed[:at] + noise, packed[:at] + noise + packed[at + len(noise) :]):
        one = running()
        outcome = told(one, in_pieces(wire, cuts), ("content-encoding", coding))
        assert isinstance(outcome, Outcome) or outcome in ("upstream.malformed", "response.withheld")
        assert one.finish().bytes_down <= len(wire)


def in_pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    return [body[begin:end] for begin, end in pairwise(edges)]


BLOCKING = handling("scrub: block")
EVERYWHERE = {
    kind: policy_of(f"{HEAD}  api.example.com: {{ allow: all, inject: [{item}] }}\n")
    for kind, item in {
        "bearer": "{ bearer: deploy }",
        "header": '{ header: { name: x-key, secret: deploy, format: "k={};" } }',
        "basic": "{ basic: { user: me, secret: deploy } }",
        "query": "{ query: { name: key, secret: deploy } }",
        "cookie": "{ cookie: { name: sid, secret: deploy } }",
        "in header": '{ placeholder: { secret: deploy, like: uuid, in: ["header:x-key"] } }',
        "in basic": '{ placeholder: { secret: deploy, like: uuid, in: ["basic"] } }',
        "in path": '{ placeholder: { secret: deploy, like: uuid, in: ["path"] } }',
        "in query": '{ placeholder: { secret: deploy, like: uuid, in: ["query:k"] } }',
        "in cookie": '{ placeholder: { secret: deploy, like: uuid, in: ["cookie:k"] } }',
    }.items()
}
LETTERS = st.from_regex(r"[A-Za-z0-9]{8,40}", fullmatch=True).map(str.encode)
VISIBLE = st.binary(min_size=8, max_size=40).map(lambda raw: bytes(0x21 + byte % 94 for byte in raw))
UNCONTROLLED = st.binary(min_size=8, max_size=40).map(lambda raw: re.sub(rb"[\x00-\x20\x7f]", b"~", raw))


@given(
    st.sampled_from(sorted(EVERYWHERE)),
    st.one_of(LETTERS, VISIBLE, UNCONTROLLED),
    st.sampled_from(["", "a", "ab"]),
)
def test_whatever_can_be_injected_is_found_by_its_needles(kind: str, value: bytes, before: str) -> None:
    """The check that the response could be searched must never refuse a sound request."""
    secret = Secret("deploy", value)
    pair = f"{before}:{STAND_IN}".encode()
    fields = {
        "in header": ("x-key", f"{before}{STAND_IN}"),
        "in basic": ("authorization", "Basic " + b64encode(pair).decode()),
        "in cookie": ("cookie", f"k={STAND_IN}"),
    }
    target = {"in path": f"/{before}{STAND_IN}", "in query": f"/?k={before}{STAND_IN}"}.get(kind, "/")
    one = exchange(policy=EVERYWHERE[kind], placeholders=STAND_INS)
    asked = request(target, *[fields[kind]] if kind in fields else [])
    assert one.begin(asked, NOW) == NeedSecrets(("deploy",))
    outcome = one.provide({"deploy": secret}, Needles.of([secret]))
    assert isinstance(outcome, SendRequest) or outcome.code == "secret.unavailable"
    if value.isalnum():
        assert isinstance(outcome, SendRequest)


URL_PARTS = st.lists(
    st.sampled_from(
        ["https:", "http:", "/", "//", "\\", "api.example.com", "evil.example", "@", ":", ":443", "?", "#",
         "\t", "\n", " ", ".", "..", "a", "%2f", "javascript:", "[", "]", ";", "HTTPS://", "\xe9"]
    ),
    max_size=7,
).map("".join)  # fmt: skip


@given(URL_PARTS)
@settings(max_examples=examples(1000))
def test_a_redirect_that_stays_stays_for_other_readers_too(url: str) -> None:
    """As the standard library reads it, as it comes and with backslashes as slashes."""
    assume(stays_at_destination(url, Destination("https", "api.example.com", 443)))
    for read in (url, url.replace("\\", "/")):
        try:
            parts = urlsplit(urljoin("https://api.example.com/base/x", read.strip()))
            port = parts.port
        except ValueError:
            continue  # a client that cannot read it goes nowhere
        assert (parts.scheme, (parts.hostname or "").rstrip("."), port or 443) == (
            "https",
            "api.example.com",
            443,
        )
        assert parts.username is None


@given(TEXT, TEXT)
def test_questions_about_urls_and_authorities_are_total(url: str, authority: str) -> None:
    destination = Destination("https", "api.example.com", 443)
    assert isinstance(stays_at_destination(url, destination), bool)
    assert isinstance(carries_credential(url), bool)
    assert isinstance(names_destination(destination, authority), bool)


@given(st.lists(st.sampled_from(["/a", "/keys/1", "/items", "/../x"]), min_size=2, max_size=6))
def test_each_request_of_a_connection_is_decided_on_its_own(targets: list[str]) -> None:
    destination = Destination("https", "api.example.com", 443)
    for target in targets:
        outcome = begun(Exchange(POLICY, SANDBOX, destination, needles=NEEDLES), request(target))
        assert isinstance(outcome, SendRequest) is (target in ("/a", "/items"))


# Fields that our own codec has read -----------------------------------------------------------

LINES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(["Host", "connection", "Content-Length", "X-a", "PROXY-x", "x_a"]), WIRE),
        st.sampled_from([":", ": ", ":\t ", " :"]),
        st.one_of(st.sampled_from(["", "x-a", "close, X-A", "12", "a \t", "a\x80 b"]), WIRE),
    ).map("".join),
    max_size=6,
)


@given(LINES)
@example(["A: b\r\nC: d"])
@example(["Connection: host"])
@example(["A:\t b \t", "A: c"])
def test_fields_that_the_codec_has_read_would_pass_every_check(lines: list[str]) -> None:
    """The check is left out for them, and nothing may come out differently for that."""
    try:
        read, _ = read_fields("".join([f"{line}\r\n" for line in lines]) + "\r\n", 0, 99)
    except WireError:
        return
    known = everything_about(read)
    assert known == everything_about(tuple(read))
    assert isinstance(known, tuple) or "Content-Length" in known


def everything_about(headers: Headers) -> tuple[object, ...] | str:
    """What an exchange asks of fields, or the one refusal that both kinds have."""
    try:
        fields = CheckedFields(headers)
    except WireError as error:
        return error.message
    asked = (fields.text, fields.length, fields.values("x-a"), fields.has_prefix("proxy-"))
    try:
        return *asked, fields.end_to_end()
    except WireError as error:
        return *asked, error.message
