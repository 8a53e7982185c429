"""A hostile sandbox and a hostile upstream against one whole exchange, without a socket.

Cases S-03 to S-07, S-09 to S-12, S-14, S-15, S-24, S-25, S-28, S-37, S-55, S-56, S-70, S-75 and S-76
as far as the order of the steps decides them; S-08 in that what cannot be read is withheld. Each attack has
its good twin, which passes.
"""

from __future__ import annotations

import base64
import gzip
import json

import pytest

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
from egress.exchange import request_steps as machines
from egress.http1 import RequestReader, encode_request_head
from egress.http1.fields import ReadFields
from egress.http1.heads import RequestHead
from egress.relay import http2_downstream, http2_upstream
from egress.types import Head, Headers, Scheme, Verdict
from tests.unit.exchange.sample import (
    NEEDLES,
    NOW,
    POLICY,
    SANDBOX,
    SECRETS,
    STAND_IN,
    STAND_INS,
    TOKEN,
    VALUES,
    Outcome,
    answered,
    begun,
    denied,
    exchange,
    handling,
    request,
    running,
    sent,
    told,
    values_of,
)

API = "api.example.com"
EVIL = "evil.example"


def off_the_wire(text: str) -> Request:
    """What a lane makes of the bytes of a client."""
    head = RequestReader().feed(text.replace("\n", "\r\n").encode("latin-1"))[0]
    assert isinstance(head, RequestHead)
    return Request(head.method, head.target, head.headers, head.authority, head.upgrade)


def on_the_wire(head: Head) -> str:
    return encode_request_head(head.method, head.target, head.headers).decode("latin-1")


def carries_a_secret(head: Head) -> bool:
    return any(value.decode() in f"{head.target} {head.headers}" for value in VALUES.values())


# Where a secret goes --------------------------------------------------------------------------


def test_the_good_request_is_injected_from_bytes_to_bytes() -> None:
    """Positive control of everything here."""
    asked = off_the_wire(f"GET /user?x=1 HTTP/1.1\nHost: {API}\nAccept: */*\n\n")
    assert on_the_wire(sent(begun(exchange(), asked))) == (
        f"GET /user?x=1 HTTP/1.1\r\nhost: {API}\r\naccept: */*\r\n"
        f"authorization: Bearer {TOKEN}\r\naccept-encoding: identity\r\n\r\n"
    )


def test_a_host_without_a_rule_for_a_secret_gets_none() -> None:
    """S-03."""
    one = exchange("other.example.com", needles=NEEDLES)
    head = sent(one.begin(request(host="other.example.com"), NOW))
    assert values_of(head.headers, "authorization") == []
    assert not carries_a_secret(head)
    assert one.finish().injected == ()


@pytest.mark.parametrize(
    "own",
    [
        (("authorization", "Bearer own"),),
        (("authorization", "Bearer own"), ("authorization", "Basic b3du")),
        (("authorization", ""),),
    ],
)
def test_what_the_sandbox_puts_into_the_slot_is_replaced(own: Headers) -> None:
    """S-04: exactly one value, and it is ours."""
    one = exchange()
    head = sent(begun(one, request("/", *own)))
    assert values_of(head.headers, "authorization") == [f"Bearer {TOKEN}"]
    assert one.finish().replaced


@pytest.mark.parametrize("name", ["x_key", "x-key"])
def test_other_spellings_of_the_slot_are_cleared_too(name: str) -> None:
    """S-04: servers that hand fields to CGI read `x_key` as `x-key`."""
    head = sent(begun(exchange("hooks.example.com"), request("/", (name, "own"), host="hooks.example.com")))
    assert [field for field in head.headers if field[0] in ("x-key", "x_key")] == [
        ("x-key", f"Key {VALUES['deploy'].decode()}")
    ]


@pytest.mark.parametrize(
    "connection",
    ["authorization", "close, Authorization", "close,authorization, x-a", "keep-alive, AUTHORIZATION"],
)
def test_nominating_the_slot_takes_only_what_the_sandbox_sent(connection: str) -> None:
    """Class 10: nominated fields go before the injection, and the injection stays."""
    asked = off_the_wire(
        f"GET / HTTP/1.1\nHost: {API}\nConnection: {connection}\nAuthorization: own\nX-B: 1\n\n"
    )
    wire = on_the_wire(sent(begun(exchange(), asked)))
    assert f"\r\nauthorization: Bearer {TOKEN}\r\n" in wire
    assert "own" not in wire
    assert "connection:" not in wire
    assert "\r\nx-b: 1\r\n" in wire


@pytest.mark.parametrize(
    ("host", "target", "headers"),
    [
        ("other.example.com", "/", (("x-key", STAND_IN),)),
        ("other.example.com", f"/?t={STAND_IN}", ()),
        ("swap.wild.example.com", f"/?t={STAND_IN}", ()),
        ("swap.wild.example.com", f"/{STAND_IN}", ()),
        ("swap.wild.example.com", "/", (("cookie", f"a={STAND_IN}"),)),
        ("swap.wild.example.com", "/", (("x-key", STAND_IN), ("x-other", STAND_IN))),
        ("swap.wild.example.com", "/", (("x-key", f"{STAND_IN} {STAND_IN}"),)),
        (
            "swap.wild.example.com",
            "/",
            (("authorization", "Basic " + base64.b64encode(STAND_IN.encode()).decode()),),
        ),
    ],
)
def test_a_placeholder_outside_its_slot_is_never_swapped(host: str, target: str, headers: Headers) -> None:
    """S-05 and S-06."""
    one = exchange(host, placeholders=STAND_INS)
    assert denied(begun(one, request(target, *headers, host=host))) == "placeholder.misplaced"
    assert one.finish().injected == ()


def test_a_placeholder_in_its_slot_is_swapped() -> None:
    """Positive control of S-05 and S-06."""
    host = "swap.wild.example.com"
    head = sent(begun(exchange(host, placeholders=STAND_INS), request("/", ("x-key", STAND_IN), host=host)))
    assert values_of(head.headers, "x-key") == [VALUES["deploy"].decode()]


def test_a_secret_that_cannot_be_had_refuses_the_request() -> None:
    """S-37: never sent bare. The good twin has it."""
    one = exchange()
    assert denied(begun(one, request(), held=())) == "secret.unavailable"
    with pytest.raises(OrderError):
        one.provide(SECRETS, NEEDLES)
    assert one.finish().verdict is Verdict.DENY
    assert isinstance(begun(exchange(), request()), SendRequest)


# Which destination ----------------------------------------------------------------------------


def test_a_connection_to_evil_that_names_the_injected_host_gets_nothing() -> None:
    """S-10: the destination of the connection decides, not what the request says of itself."""
    one = exchange(EVIL)
    assert denied(one.begin(off_the_wire(f"GET / HTTP/1.1\nHost: {API}\n\n"), NOW)) == "request.mismatch"
    one = exchange(EVIL)
    assert denied(one.begin(request(host=EVIL), NOW)) == "host.unknown"


@pytest.mark.parametrize(
    ("host", "authority"),
    [(EVIL, ""), (EVIL, API), (API, EVIL), (f"{API}@{EVIL}", ""), (API, f"{API}@{EVIL}"), (f"{API}:8443", ""),
     (f"[{API}]", ""), (f"{API}\x00.{EVIL}", ""), (f"{API}.{EVIL}", ""), (f"evil-{API}", "")],
)  # fmt: skip
def test_an_allowed_connection_cannot_front_for_another_host(host: str, authority: str) -> None:
    """S-11: 421, whichever of the two names is foreign."""
    one = exchange()
    outcome = one.begin(Request("GET", "/", (("host", host),), authority), NOW)
    assert outcome == DenyRequest("request.mismatch")
    assert one.finish().status == 421


@pytest.mark.parametrize("host", [API, API.upper(), f"{API}.", f"{API}:443", "Api.Example.Com.:443"])
def test_a_spelling_of_the_destination_gets_the_same_verdict(host: str) -> None:
    """S-12, and the positive control of S-10 and S-11: forwarded in the one spelling."""
    head = sent(begun(exchange(), request(host=host)))
    assert values_of(head.headers, "host") == [API]


@pytest.mark.parametrize("second", [API, EVIL])
def test_a_second_host_is_refused(second: str) -> None:
    """S-24."""
    assert denied(exchange().begin(request("/", ("host", second)), NOW)) == "request.malformed"


@pytest.mark.parametrize(
    ("scheme", "port", "code"),
    [("https", 8443, "host.port"), ("https", 80, "host.port"), ("http", 80, "host.cleartext"),
     ("http", 443, "host.cleartext")],
)  # fmt: skip
def test_another_port_or_clear_text_carries_no_secret(scheme: Scheme, port: int, code: str) -> None:
    """S-14 and S-15."""
    destination = Destination(scheme, API, port)
    one = Exchange(POLICY, SANDBOX, destination)
    assert denied(one.begin(request(host=destination.authority), NOW)) == code


def test_clear_text_where_the_rules_open_it_carries_none_either() -> None:
    """Positive control of S-15."""
    one = Exchange(POLICY, SANDBOX, Destination("http", "plain.example.com", 80), needles=NEEDLES)
    head = sent(one.begin(request(host="plain.example.com"), NOW))
    assert head.scheme == "http"
    assert not carries_a_secret(head)


@pytest.mark.parametrize("protocol", ["h2c", "websocket, h2c", "tls/1.3", "anything"])
def test_no_other_protocol_is_switched_to(protocol: str) -> None:
    """Class 11."""
    lines = (
        f"Host: {API}",
        "Connection: upgrade, http2-settings",
        f"Upgrade: {protocol}",
        "HTTP2-Settings: x",
    )
    wire = "\n".join(("GET /live HTTP/1.1", *lines, "", ""))
    assert denied(exchange().begin(off_the_wire(wire), NOW)) == "request.upgrade"


def test_an_upgrade_that_is_not_nominated_is_nothing() -> None:
    head = sent(begun(exchange(), off_the_wire(f"GET / HTTP/1.1\nHost: {API}\nUpgrade: h2c\n\n")))
    assert "upgrade" not in dict(head.headers)
    assert not head.websocket


def test_a_websocket_needs_a_rule_that_says_so() -> None:
    """S-25, with its twin."""
    wire = f"GET %s HTTP/1.1\nHost: {API}\nConnection: Upgrade\nUpgrade: websocket\n\n"
    assert denied(exchange().begin(off_the_wire(wire % "/a"), NOW)) == "rule.websocket"
    assert sent(begun(exchange(), off_the_wire(wire % "/live"))).websocket


@pytest.mark.parametrize("status", [101, 200])
def test_an_upstream_cannot_open_a_tunnel_by_itself(status: int) -> None:
    """Class 11: a 101 that nobody asked for is cut; the good twin is an ordinary response."""
    answer = running().respond(Response(status, "", ()))
    assert isinstance(answer, CutExchange if status == 101 else AnswerHead)


def test_each_request_on_a_connection_is_decided_on_its_own() -> None:
    """S-55: allowed, denied, allowed; nothing is carried over."""
    destination = Destination("https", API, 443)
    outcomes = [
        begun(Exchange(POLICY, SANDBOX, destination), request(target)) for target in ("/a", "/keys/1", "/a")
    ]
    assert [isinstance(outcome, SendRequest) for outcome in outcomes] == [True, False, True]
    assert denied(outcomes[1]) == "rule.denied"


@pytest.mark.parametrize("value", ["a\r\nhost: evil.example", "a\nb", "a\x00", " a"])
def test_a_head_of_http2_never_counts_as_checked(value: str) -> None:
    """Only what our own reader of HTTP/1.1 made is trusted; the good twin of HTTP/2 passes the check."""
    assert type(off_the_wire(f"GET / HTTP/1.1\nHost: {API}\n\n").headers) is ReadFields
    pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", API), (":path", "/a")]
    good, _, _ = http2_downstream._request_of([*pseudo, ("x-a", "1")], ends=True)
    assert isinstance(begun(exchange(), good), SendRequest)
    bad, _, _ = http2_downstream._request_of([*pseudo, ("x-a", value)], ends=True)
    assert denied(begun(exchange(), bad)) == "request.malformed"
    _, fields = http2_upstream._status_of([(":status", "200"), ("x-a", "1")])
    assert isinstance(running().respond(Response(200, "", fields)), AnswerHead)
    _, fields = http2_upstream._status_of([(":status", "200"), ("x-a", value)])
    assert running().respond(Response(200, "", fields)) == CutExchange("upstream.malformed")


# Faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["decidable_head", "decide", "apply_credentials", "asking_for_plain", "can_find_injected"]
)
def test_a_fault_on_the_way_to_the_upstream_sends_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """S-28 at this level: the guard of a lane turns the exception into a denial, and nothing undoes it."""

    def fault(*args: object, **named: object) -> object:
        raise RuntimeError

    one = exchange()
    with monkeypatch.context() as patch:
        patch.setattr(machines, name, fault)
        with pytest.raises(RuntimeError):
            begun(one, request())
    with pytest.raises(OrderError):
        one.provide(SECRETS, NEEDLES)
    with pytest.raises(OrderError):
        one.begin(request(), NOW)
    assert one.finish().verdict is Verdict.DENY


def test_a_lane_without_needles_for_a_secret_cannot_send_it() -> None:
    """A response that nobody could search must not be asked for."""
    one = exchange()
    assert one.begin(request(), NOW) == NeedSecrets(("github",))
    assert one.provide(SECRETS, None) == DenyRequest("internal")


# What comes back ------------------------------------------------------------------------------

ECHOES = {
    "plain": TOKEN.encode(),
    "json": json.dumps({"headers": {"Authorization": f"Bearer {TOKEN}"}}).encode(),
    "basic": base64.b64encode(f"me:{TOKEN}".encode()),
    "hexadecimal": TOKEN.encode().hex().encode(),
    "upper case": TOKEN.upper().encode(),
}


def leaks(out: bytes) -> bool:
    """Whether 16 bytes in a row of any spelling of a secret are left."""
    return any(needle[at : at + 16] in out for needle in NEEDLES for at in range(len(needle) - 15))


def test_the_leak_check_itself_sees_a_leak() -> None:
    assert all(leaks(echo) for echo in ECHOES.values())


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("size", [1, 3, 17, 4096])
def test_an_echo_in_the_body_is_masked_in_any_pieces(echo: bytes, size: int) -> None:
    """S-07."""
    body = b'{"echo": "' + echo + b'"}'
    one = running()
    outcome = told(
        one, [body[at : at + size] for at in range(0, len(body), size)], ("content-length", str(len(body)))
    )
    assert isinstance(outcome, Outcome)
    assert len(outcome.body) == len(body)
    assert not leaks(outcome.body)
    assert one.finish().scrubbed[0][0] == "github"


def test_a_body_without_the_secret_passes_unchanged() -> None:
    """Positive control of S-07."""
    outcome = told(running(), [b'{"echo": ', b'"ghp_"}'])
    assert isinstance(outcome, Outcome)
    assert outcome.body == b'{"echo": "ghp_"}'


@pytest.mark.parametrize(
    ("coding", "status"),
    [("gzip", 206), ("br", 206), ("gzip, br", 200), ("identity, gzip", 200), ("compress", 200), ("x", 404)],
)
def test_a_body_that_cannot_be_decoded_whole_is_withheld(coding: str, status: int) -> None:
    """S-08 and S-76: none was asked for, and what cannot be read cannot be searched."""
    one = running()
    answer = one.respond(Response(status, "", (("content-encoding", coding),)))
    assert answer == CutExchange("response.withheld")
    with pytest.raises(OrderError):
        one.data(gzip.compress(TOKEN.encode()))


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
@pytest.mark.parametrize("status", [200, 404])
def test_a_coded_body_is_decoded_and_searched(coding: str, status: int) -> None:
    """The good twin; more of S-08 in test_reflection."""
    one = running()
    answered(one.respond(Response(status, "", (("content-encoding", coding),))))
    assert one.data(gzip.compress(TOKEN.encode())) == [b"*" * len(TOKEN)]


@pytest.mark.parametrize(
    "fields",
    [
        (("connection", "content-encoding"), ("content-encoding", "gzip")),
        (("grpc-encoding", "gzip"), ("content-type", "application/grpc")),
        (("connect-content-encoding", "gzip"),),
        (("im", "gzip"),),
    ],
)
def test_no_other_dialect_of_compression_gets_by(fields: Headers) -> None:
    """S-76: messages of gRPC, and a coding hidden from the head by nominating it."""
    assert running().respond(Response(200, "", fields)) == CutExchange("response.withheld")


def test_no_coding_is_asked_for() -> None:
    head = sent(
        begun(exchange(), request("/", ("accept-encoding", "gzip"), ("grpc-accept-encoding", "gzip")))
    )
    assert [field for field in head.headers if "encoding" in field[0]] == [("accept-encoding", "identity")]


@pytest.mark.parametrize(
    ("field", "where"),
    [
        (("x-echo", f"Bearer {TOKEN}"), "value"),
        ((f"x-{TOKEN.lower()}", "1"), "name"),
        (("location", f"/x?from={TOKEN}"), "redirect"),
        (("www-authenticate", f'Bearer realm="{TOKEN}"'), "challenge"),
    ],
)
@pytest.mark.parametrize("status", [200, 302, 401, 103])
def test_an_echo_in_the_head_is_masked(field: tuple[str, str], where: str, status: int) -> None:
    """S-09, in final and interim heads."""
    one = running()
    step = one.informational if status == 103 else one.respond
    answer = answered(step(Response(status, f"No {TOKEN}", (field,))))
    shown = f"{answer.reason} {answer.headers}"
    assert TOKEN not in shown
    assert TOKEN.lower() not in shown
    assert "*" * len(TOKEN) in shown


def test_an_echo_in_trailers_is_masked() -> None:
    outcome = told(running(), [b"x"], trailers=(("grpc-message", TOKEN), ("set-cookie", f"a={TOKEN}")))
    assert isinstance(outcome, Outcome)
    assert outcome.trailers == (("grpc-message", "*" * len(TOKEN)),)


def test_an_echo_in_a_frame_a_ping_or_a_close_is_masked() -> None:
    """S-75; and compression of frames, which would hide it, is neither asked for nor accepted."""
    deflate = ("sec-websocket-extensions", "permessage-deflate")
    asked = request("/live", deflate, upgrade=("websocket",))
    assert "sec-websocket-extensions" not in dict(sent(begun(exchange(), asked)).headers)
    assert running(asked).respond(Response(101, "", (deflate,))) == CutExchange("response.withheld")
    one = running(asked)
    answered(one.respond(Response(101, "", ())))
    assert one.control(TOKEN.encode()) == b"*" * len(TOKEN)
    assert one.message(TOKEN.encode(), ends=True) == [b"*" * len(TOKEN)]
    assert one.message(b"hello", ends=True) == [b"hello"]


def test_where_the_rule_says_block_nothing_of_it_comes() -> None:
    policy = handling("scrub: block")
    assert told(running(policy=policy), [b"a", TOKEN.encode()]) == "response.withheld"
    assert told(running(policy=policy), [], ("x-a", TOKEN)) == "response.withheld"
    assert isinstance(told(running(policy=policy), [b"a"]), Outcome)


def test_a_cookie_does_not_come_back_from_an_injected_request() -> None:
    """S-76: a session is a credential that the upstream has made. The twin is a rule that passes it."""
    fields = (("set-cookie", "sid=1"), ("set-cookie", "b=2"), ("x-a", "1"))
    assert answered(running().respond(Response(200, "", fields))).headers == (("x-a", "1"),)
    passing = running(policy=handling("cookies: pass"))
    assert answered(passing.respond(Response(200, "", fields))).headers == fields
    bare = running(host="other.example.com")
    assert answered(bare.respond(Response(200, "", fields))).headers == fields


def test_an_upstream_cannot_speak_in_our_name() -> None:
    fields = (("egress-verdict", "allow"), ("x-a", "1"))
    assert answered(running().respond(Response(200, "", fields))).headers == (("x-a", "1"),)


SIGNED = "https://bucket.example/o?X-Amz-Algorithm=A&X-Amz-%53ignature=ab12"


def test_a_redirect_to_evil_leads_to_a_decision_of_its_own() -> None:
    """S-56: the client may follow, with what the sandbox holds; evil gets neither secret nor request."""
    answer = answered(running().respond(Response(302, "", (("location", f"https://{EVIL}/"),))))
    assert not any(value.decode() in str(answer) for value in VALUES.values())
    assert denied(exchange(EVIL).begin(request(host=EVIL), NOW)) == "host.unknown"


def test_a_redirect_to_another_host_is_refused_where_the_rule_says_so() -> None:
    """S-56: `redirects: same-host` and `deny`, with the redirect that stays as the twin."""
    away, stays = (("location", f"//{EVIL}\\@{API}/"),), (("location", "/next"),)
    for mode, fields, passes in [
        ("same-host", away, False),
        ("same-host", stays, True),
        ("deny", stays, False),
    ]:
        answer = running(policy=handling(f"redirects: {mode}")).respond(Response(302, "", fields))
        assert isinstance(answer, AnswerHead) is passes
        assert passes or answer == CutExchange("redirect.refused")


@pytest.mark.parametrize("status", [201, 302, 307])
def test_a_signed_location_is_a_credential(status: int) -> None:
    """S-76: it passes only where the rule names it, or where nothing was injected."""
    head = Response(status, "", (("location", SIGNED),))
    assert running().respond(head) == CutExchange("redirect.refused")
    assert isinstance(running(policy=handling("redirects: signed")).respond(head), AnswerHead)
    assert isinstance(running(host="other.example.com").respond(head), AnswerHead)


def test_an_unsigned_location_passes() -> None:
    """Positive control of the one above."""
    answered(running().respond(Response(302, "", (("location", "https://bucket.example/o?page=2"),))))


# The record -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["/a?token=hunter2", "/a#token=hunter2", "/../a?token=hunter2", "/keys/1?token=hunter2"]
)
def test_a_record_holds_no_query_and_no_value(target: str) -> None:
    """S-70, for requests that are sent and for those that are denied."""
    one = exchange()
    begun(one, request(target, ("authorization", "hunter2"), ("cookie", "a=hunter2")))
    shown = repr(one.finish())
    assert "hunter2" not in shown
    assert TOKEN not in shown
    assert API in shown
