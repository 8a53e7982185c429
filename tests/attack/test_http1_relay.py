"""Classes 8, 9 and 22 against the whole HTTP/1 relay: one parse, one request upstream, one record.

S-19 to S-24 (framing), S-55 (each request of a connection decided on its own). What the codec refuses is
held by tests/attack/test_framing.py; here it is what becomes of it between two connections.
"""

from __future__ import annotations

import pytest

from egress.errors import CODES
from egress.relay.limits import RelayLimits
from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import (
    CLEAR,
    LIMITED,
    NAME,
    NOTHING,
    VALUE,
    Lab,
    get,
    head,
    policy_of,
    post,
    response,
)

INNER = get("/v1/inner")


def answered(lab: Lab, body: bytes = b"hello") -> None:
    """The request under way is answered over a connection of its own."""
    lab.opens()
    lab.answers(response(body))


# Smuggling --------------------------------------------------------------------------------------

AMBIGUOUS = {
    "CL.TE": "Content-Length: 6\r\nTransfer-Encoding: chunked",
    "TE.CL": "Transfer-Encoding: chunked\r\nContent-Length: 6",
    "two lengths": "Content-Length: 6\r\nContent-Length: 60",
    "two equal lengths": "Content-Length: 6\r\nContent-Length: 6",
    "a list of lengths": "Content-Length: 6, 6",
    "a signed length": "Content-Length: +6",
    "an octal length": "Content-Length: 06",
    "TE.TE": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "a coding of two": "Transfer-Encoding: gzip, chunked",
    "a coding with a tab": "Transfer-Encoding:\tchunked\r\nContent-Length: 6",
    "an underscore": "Content_Length: 6",
    "a space before the colon": "Transfer-Encoding : chunked",
    "a fold": "X: y\r\n Content-Length: 6",
    "a bare CR": "X: y\rContent-Length: 6",
    "a NUL": "X: y\0",
    "a nominated length": "Connection: close, content-length\r\nContent-Length: 6",
    "two hosts": "Host: evil.example.test",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_can_be_framed_in_two_ways_goes_nowhere(fields: str) -> None:
    lab = Lab()
    lab.says(f"POST /v1/notes HTTP/1.1\r\nHost: {NAME}\r\n{fields}\r\n\r\n".encode("latin-1") + b"0\r\n\r\n")
    lab.says(INNER)
    assert not lab.opening
    (answer,) = lab.responses("POST")
    assert answer.status in {400, 501}
    assert answer.headers["connection"] == "close"
    assert lab.codes == ["request.malformed"]


def test_a_body_is_framed_by_us_and_the_next_request_is_decided_on_its_own() -> None:
    """The control: a chunked body that holds what reads as a request, and a second request behind it."""
    lab = Lab()
    chunked = b"%x;ext=1\r\n%b\r\n0\r\nx-t: 1\r\n\r\n" % (len(INNER), INNER)
    lab.says(get("/v1/notes", "Transfer-Encoding: chunked", method="POST") + chunked + get("/v1/second"))
    answered(lab)
    lab.answers(response(b"two"))
    asked = lab.requests()
    assert [(each.method, each.target, each.body) for each in asked] == [
        ("POST", "/v1/notes", INNER),
        ("GET", "/v1/second", b""),
    ]
    assert b"ext" not in lab.sent[1]
    assert b"x-t" not in lab.sent[1], "trailers come after the decision, so they do not travel"
    assert [each.body for each in lab.responses()] == [b"hello", b"two"]
    lab.check()


def test_s55_an_allowed_request_opens_no_door_for_the_next() -> None:
    """S-55: on one connection, allowed, denied, allowed."""
    lab = Lab()
    lab.says(get("/v1/one"))
    answered(lab)
    lab.says(get("/admin"))
    lab.says(get("/v1/two"))
    lab.answers(response(b"two"))
    assert [each.status for each in lab.responses()] == [200, 403, 200]
    assert [each.target for each in lab.requests()] == ["/v1/one", "/v1/two"]
    assert lab.codes == ["rule.allowed", "rule.none", "rule.allowed"]
    lab.check()


def test_a_thousand_denied_requests_in_one_read_are_answered_without_recursion() -> None:
    lab = Lab()
    lab.says(get("/admin") * 1000)
    answers = lab.responses()
    assert len(answers) == 1000
    assert {each.code for each in answers} == {"rule.none"}
    assert len(lab.desk.records) == 1000
    lab.says(get("/v1/still"))
    assert lab.opening
    lab.check()


def test_a_client_that_never_reads_its_denials_is_not_given_more_of_them_to_hold() -> None:
    lab = Lab()
    lab.blocks()
    for _ in range(300):
        if lab.relay.reads(CLIENT_WIRE):
            lab.says(get("/admin") * 10)
    assert len(lab.desk.records) == 1
    assert not lab.relay.reads(CLIENT_WIRE)
    lab.drains()
    assert len(lab.desk.records) > 1, "the control: reading sets it going again"


def test_a_client_that_never_reads_cannot_have_the_second_answer_piled_up() -> None:
    """The wire is blocked by the first answer, and says so only once."""
    lab = Lab()
    lab.says(get("/v1/one") + get("/v1/two"))
    lab.opens()
    lab.blocks()
    lab.answers(response(b"one"))
    assert lab.requests(1)[1:] == []
    lab.drains()
    assert [each.target for each in lab.requests(1)] == ["/v1/one", "/v1/two"]
    lab.blocks()
    assert not lab.relay.reads(1)


def test_congestion_that_comes_while_the_upstream_connects_is_remembered() -> None:
    lab = Lab()
    lab.says(get())
    lab.blocks()
    wire = lab.opens()
    assert not lab.relay.reads(wire)
    lab.drains()
    assert lab.relay.reads(wire)


def test_an_upstream_that_takes_no_request_is_not_given_another() -> None:
    """It answers at once and never reads: the bodies would pile up with us, unnoticed."""
    lab = Lab()
    lab.says(post(b"x" * 1000))
    wire = lab.opens()
    lab.blocks(wire)
    lab.answers(response())
    assert lab.ended[wire] == "closed"
    lab.says(post(b"y"))
    assert lab.opening, "a new connection"
    assert lab.relay.reads(CLIENT_WIRE) is False
    other = lab.opens()
    lab.answers(response())
    lab.says(post(b"z"))
    assert [each.body for each in lab.requests(other)] == [b"y", b"z"], "the control: one that reads is kept"


# Bodies that are not wanted -----------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1000, 7_000, 64_000])
def test_a_refused_body_is_read_for_64_kib_and_no_further(piece: int) -> None:
    lab = Lab()
    lab.says(get("/admin", "Content-Length: 10000000", method="POST"))
    (answer,) = lab.responses("POST")
    assert (answer.code, answer.headers["connection"]) == ("rule.none", "close")
    taken = 0
    while lab.relay.reads(CLIENT_WIRE) and taken < 1 << 20:
        lab.says(b"x" * piece)
        taken += piece
    assert taken <= 64 * 1024 + piece
    assert not lab.closed(), "it has a moment to read the answer"
    lab.waits(4, steps=4)
    assert lab.closed()
    assert lab.codes == ["rule.none"]


def test_a_refused_request_with_an_empty_body_costs_no_connection() -> None:
    lab = Lab()
    lab.says(post(b"", "/admin") + get("/v1/next"))
    assert "connection" not in lab.responses("POST")[0].headers
    assert lab.opening


def test_a_body_beyond_the_limit_is_cut_and_the_upstream_gets_no_more() -> None:
    lab = Lab(LIMITED)
    lab.says(get("/v1/notes", "Transfer-Encoding: chunked", method="POST"))
    wire = lab.opens()
    lab.says(b"32\r\n" + b"x" * 50 + b"\r\n")
    lab.says(b"40\r\n" + b"y" * 64 + b"\r\n0\r\n\r\n" + INNER)
    assert lab.responses("POST")[0].code == "limit.request_body"
    assert lab.ended[wire] == "closed"
    assert b"yy" not in lab.sent[wire]
    assert not lab.opening
    lab.check()


def test_an_answer_may_come_while_the_body_is_still_coming() -> None:
    lab = Lab()
    lab.says(get("/v1/notes", "Content-Length: 200000", method="POST") + b"x" * 1000)
    wire = lab.opens()
    lab.answers(response(b"too long", status="413 Content Too Large"))
    assert lab.responses("POST")[0].body == b"too long"
    assert lab.ended[wire] == "closed", "half a request is still on it"
    lab.says(b"x" * 1000)
    assert not lab.closed()
    lab.waits(5, steps=5)
    assert lab.closed()
    assert lab.codes == ["rule.allowed"]
    lab.check()


# Expect: 100-continue -------------------------------------------------------------------------------


def test_no_100_comes_before_the_decision() -> None:
    lab = Lab(at_hand=False)
    lab.says(get("/v1/notes", "Content-Length: 5", "Expect: 100-continue", method="POST"))
    assert not lab.sent[CLIENT_WIRE]
    lab.fetches()
    assert not lab.sent[CLIENT_WIRE]
    lab.opens()
    assert not lab.sent[CLIENT_WIRE], "nor before the upstream has said so"
    lab.answers(head(status="100 Continue"))
    assert lab.new().startswith(b"HTTP/1.1 100 ")
    lab.says(b"hello")
    lab.answers(response())
    assert lab.requests()[0].body == b"hello"
    assert lab.responses("POST")[0].is_whole


def test_a_denied_expectation_is_answered_by_the_denial() -> None:
    lab = Lab()
    lab.says(get("/admin", "Content-Length: 5", "Expect: 100-continue", method="POST"))
    (answer,) = lab.responses("POST")
    assert (answer.status, answer.interim) == (403, [])


@pytest.mark.parametrize("is_told", [False, True])
def test_a_body_that_was_asked_about_may_not_come_after_an_answer(is_told: bool) -> None:
    """Unless it was told to continue: so no other request is read there, and the client hears of it."""
    lab = Lab()
    lab.says(get("/v1/notes", "Content-Length: 5", "Expect: 100-continue", method="POST"))
    wire = lab.opens()
    if is_told:
        lab.answers(head(status="100 Continue"))
        lab.says(b"he")
    lab.answers(response(status="417 Expectation Failed"))
    (answer,) = lab.responses("POST")
    assert (answer.status, answer.headers.get("connection")) == (417, None if is_told else "close")
    lab.says(get("/v1/next"))
    assert len(lab.requests(wire)) == 1
    assert not lab.opening


def test_a_100_that_was_not_asked_for_stays_here_and_other_hints_go_on() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(head(status="100 Continue") + head(f"link: {VALUE.decode()}", status="103 Early Hints"))
    lab.answers(response())
    (answer,) = lab.responses()
    assert answer.interim == [103]


# Odd shapes of responses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "said", "body"),
    [
        ("HEAD", head("Content-Length: 5"), b""),
        ("HEAD", head("Transfer-Encoding: chunked"), b""),
        ("GET", head(status="204 No Content"), b""),
        ("GET", head("Content-Length: 0", status="204 No Content"), b""),
        ("GET", head("Content-Length: 5", status="304 Not Modified"), b""),
        ("GET", head("Content-Length: 0"), b""),
        ("GET", head("Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\nx-check: 1\r\n\r\n", b"abc"),
    ],
)
def test_the_connection_goes_on_after_a_response_of_this_shape(method: str, said: bytes, body: bytes) -> None:
    lab = Lab()
    lab.says(get(method=method))
    wire = lab.opens()
    lab.answers(said)
    assert lab.responses(method)[0].body == body
    assert lab.responses(method)[0].is_whole
    lab.says(get("/v1/two"))
    lab.answers(response(b"two"))
    assert lab.responses(method, "GET")[1].body == b"two"
    assert len(lab.requests(wire)) == 2
    lab.check()


def test_trailers_of_a_response_go_on_without_what_a_head_decides() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    trailers = b"x-check: done\r\nset-cookie: a=b\r\nx-echo: " + VALUE + b"\r\n\r\n"
    lab.answers(head("Transfer-Encoding: chunked") + b"0\r\n" + trailers)
    (answer,) = lab.responses()
    assert answer.trailers == {"x-check": "done", "x-echo": "*" * len(VALUE)}


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.answers(head() + b"half")
    assert not lab.responses()[0].is_whole
    lab.hangs_up()
    (answer,) = lab.responses()
    assert (answer.body, answer.is_whole) == (b"half", True)
    assert answer.headers["transfer-encoding"] == "chunked"
    assert wire in lab.ended
    assert not lab.closed()


def test_an_http10_client_gets_no_chunks_and_no_hints() -> None:
    lab = Lab()
    lab.says(get(version="1.0"))
    lab.opens()
    lab.answers(
        head(status="103 Early Hints") + head("Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n"
    )
    assert lab.sent[CLIENT_WIRE].endswith(b"\r\n\r\nabc")
    assert b"chunked" not in lab.sent[CLIENT_WIRE]
    assert b" 103 " not in lab.sent[CLIENT_WIRE]
    assert lab.closed()
    assert lab.requests()[0].target == "/v1/user"


def test_a_body_that_is_cut_off_is_shown_to_be() -> None:
    for said in (head("Content-Length: 10") + b"half", head("Transfer-Encoding: chunked") + b"4\r\nhalf\r\n"):
        lab = Lab()
        lab.says(get())
        lab.opens()
        lab.answers(said)
        lab.hangs_up()
        assert lab.ended[CLIENT_WIRE] == "reset"
        assert lab.codes == ["upstream.closed"]
        lab.check()


# Kept connections ---------------------------------------------------------------------------------------


def test_what_the_upstream_sends_too_much_is_never_the_answer_to_the_next_request() -> None:
    lab = Lab()
    lab.says(get("/v1/one"))
    wire = lab.opens()
    lab.answers(response() + response(b"poison"))
    assert lab.ended[wire] == "closed"
    lab.says(get("/v1/two"))
    lab.opens()
    lab.answers(response(b"right"))
    assert [each.body for each in lab.responses()] == [b"hello", b"right"]


def test_what_comes_on_a_connection_that_nobody_uses_closes_it() -> None:
    lab = Lab()
    lab.says(get("/v1/one"))
    wire = lab.opens()
    lab.answers(response())
    lab.answers(response(b"poison"), wire=wire)
    assert lab.ended[wire] == "closed"
    lab.says(get("/v1/two"))
    assert lab.opening


def kept(*said: bytes) -> tuple[Lab, int]:
    """A lab whose second request is under way on a connection that was kept."""
    lab = Lab()
    lab.says(get("/v1/one"))
    wire = lab.opens()
    lab.answers(response())
    for each in said:
        lab.says(each)
    return lab, wire


def test_a_stale_connection_costs_one_more_try_and_no_second() -> None:
    lab, wire = kept(get("/v1/two"))
    lab.hangs_up(wire)
    assert lab.ended[wire] == "closed"
    other = lab.opens()
    assert [each.target for each in lab.requests(other)] == ["/v1/two"]
    lab.answers(response(b"two"))
    assert lab.responses()[1].body == b"two"
    lab.says(get("/v1/three"))
    assert len(lab.requests(other)) == 2, "a request that was sent again leaves its connection fit"
    lab.check()
    lab, wire = kept(get("/v1/two"))
    lab.hangs_up(wire)
    lab.opens()
    lab.hangs_up()
    assert lab.codes == ["rule.allowed", "upstream.closed"]
    assert not lab.opening
    lab.check()


@pytest.mark.parametrize(
    "said",
    [get("/v1/two", method="POST"), post(b"x"), post(b"x", method="PUT"), post(b"x", method="DELETE")],
    ids=["POST", "POST with body", "PUT with body", "DELETE with body"],
)
def test_what_may_have_been_done_is_not_done_twice(said: bytes) -> None:
    lab, wire = kept(said)
    lab.hangs_up(wire)
    assert not lab.opening
    assert lab.codes == ["rule.allowed", "upstream.closed"]
    lab.check()


def test_a_connection_that_had_begun_to_answer_is_not_stale() -> None:
    lab, wire = kept(get("/v1/two"))
    lab.answers(b"HTTP/1.1 2", wire=wire)
    lab.hangs_up(wire)
    assert not lab.opening
    assert lab.responses()[1].code == "upstream.closed"


def test_a_fresh_connection_that_closes_is_no_stale_one() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.hangs_up()
    assert not lab.opening
    assert lab.responses()[0].code == "upstream.closed"


def test_a_connection_is_kept_for_a_while() -> None:
    lab, _ = kept()
    lab.waits(29, steps=29)
    assert 1 not in lab.ended
    lab.waits(3, steps=3)
    assert lab.ended[1] == "closed"


# Clients of a proxy, which name the destination in each request ----------------------------------------


def absolute(path: str, authority: str = NAME, scheme: str = "http", method: str = "GET") -> bytes:
    """A request as a client of a proxy writes it."""
    return get(path, method=method).replace(path.encode(), f"{scheme}://{authority}{path}".encode(), 1)


def forwarding() -> Lab:
    return Lab(CLEAR, scheme="http", forward=True)


SPELLINGS = [NAME, NAME.upper(), f"{NAME}:80", f"{NAME}."]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_client_of_a_proxy_is_kept_while_it_asks_for_the_same_host(spelling: str) -> None:
    """Some logins, such as NTLM, are those of a connection: of the one to the upstream, too."""
    lab = forwarding()
    lab.says(absolute("/v1/one"))
    wire = lab.opens()
    lab.answers(response())
    lab.says(absolute("/v1/two", spelling))
    lab.answers(response())
    lab.says(absolute("/admin"))
    assert [answer.status for answer in lab.responses()] == [200, 200, 403]
    assert not any("connection" in answer.headers for answer in lab.responses())
    assert [asked.target for asked in lab.requests(wire)] == ["/v1/one", "/v1/two"]
    assert not lab.closed()
    lab.check()


OTHERS = {
    "another host": absolute("/v1/two", "other.example.test"),
    "a host above it": absolute("/v1/two", "example.test"),
    "another host, and this one in Host": get("http://other.example.test/v1/two"),
    "another port": absolute("/v1/two", f"{NAME}:8080"),
    "another scheme": absolute("/v1/two", scheme="https"),
    "no host": get("/v1/two"),
    "a tunnel": get(f"{NAME}:80", method="CONNECT"),
    "every host": get("*", method="OPTIONS"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("is_early", [False, True])
def test_a_request_for_another_destination_is_never_read_here(other: bytes, is_early: bool) -> None:
    """It goes back as it came, with all behind it, and with the connection."""
    lab, behind = forwarding(), b"and \0 whatever else"
    lab.says(absolute("/v1/one") + (other + behind if is_early else b""))
    wire = lab.opens()
    lab.answers(response())
    if not is_early:
        lab.says(other + behind)
    assert lab.handed_back == other + behind
    assert lab.ended == {CLIENT_WIRE: "handed back", wire: "closed"}
    assert [answer.status for answer in lab.responses()] == [200]
    assert [asked.target for asked in lab.requests(wire)] == ["/v1/one"]
    assert lab.codes == ["rule.allowed"], "the next one is somebody else's to record"
    assert lab.relay.received(CLIENT_WIRE, b"more") == []
    lab.check()


def test_the_first_request_is_for_this_destination_however_it_is_spelled() -> None:
    """The ingress has read it; handed back, it would come again without end."""
    lab = forwarding()
    lab.says(absolute("/v1/one", "other.example.test"))
    assert [answer.code for answer in lab.responses()] == ["request.mismatch"]
    assert not lab.handed_back


def test_a_connection_that_is_no_proxys_takes_no_other_destination() -> None:
    """The twin: inside of a tunnel each request is for its host, or is refused."""
    lab = Lab(CLEAR, scheme="http")
    lab.says(get("/v1/one") + OTHERS["another host"])
    lab.opens()
    lab.answers(response())
    assert [answer.status for answer in lab.responses()] == [200, 421]
    assert not lab.handed_back


# Time -------------------------------------------------------------------------------------------------


def test_a_head_that_trickles_in_is_ended() -> None:
    lab = Lab(limits=RelayLimits(head=15))
    for byte in get()[:14]:
        lab.says(bytes([byte]))
        lab.waits(1)
    assert not lab.closed()
    for byte in get()[14:18]:
        lab.says(bytes([byte]))
        lab.waits(1)
    assert lab.responses()[0].code == "request.timeout"
    assert lab.codes == ["request.timeout"]
    lab.waits(4, steps=4)
    assert lab.closed()


def test_a_body_that_stops_coming_is_ended() -> None:
    lab = Lab()
    lab.says(get("/v1/notes", "Content-Length: 10", method="POST"))
    lab.opens()
    for _ in range(9):
        lab.says(b"x")
        lab.waits(59)
    assert lab.codes == []
    lab.waits(61, steps=2)
    assert lab.responses("POST")[0].code == "request.timeout"
    lab.check()


def test_a_client_that_we_hold_back_is_not_at_fault() -> None:
    lab = Lab()
    lab.says(get("/v1/notes", "Content-Length: 10", method="POST"))
    lab.waits(100, steps=10)
    assert lab.codes == []
    lab.opens()
    lab.blocks(1)
    lab.waits(100, steps=10)
    assert lab.codes == []


def test_an_upstream_that_says_nothing_is_given_up() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.waits(303, steps=303)
    (answer,) = lab.responses()
    assert (answer.status, answer.code) == (504, "upstream.timeout")
    lab.check()


def test_a_response_that_stands_still_is_cut() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(head("Content-Length: 10") + b"x")
    lab.waits(890, steps=89)
    assert not lab.closed()
    lab.waits(30, steps=3)
    assert lab.ended[CLIENT_WIRE] == "reset"
    assert lab.codes == ["upstream.timeout"]


def test_a_connection_that_asks_for_nothing_is_closed_without_a_record() -> None:
    lab = Lab()
    lab.waits(119, steps=119)
    assert not lab.closed()
    lab.waits(3, steps=3)
    assert lab.closed()
    assert lab.codes == []


def test_a_client_that_lets_its_answers_lie_is_not_told_that_it_was_slow() -> None:
    lab = Lab()
    lab.blocks()
    lab.says(get("/admin") * 2)
    lab.waits(30, steps=30)
    assert len(lab.desk.records) == 1
    lab.waits(100, steps=10)
    assert lab.closed()


# Clients that leave -------------------------------------------------------------------------------------


def test_a_client_of_clear_text_may_close_its_side_and_wait() -> None:
    lab = Lab(CLEAR, scheme="http")
    lab.says(get())
    lab.opens()
    lab.leaves()
    assert not lab.closed()
    lab.answers(response())
    assert lab.responses()[0].is_whole
    assert lab.closed()
    assert lab.codes == ["rule.allowed"]


def test_a_client_of_tls_that_closes_has_left() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.leaves()
    assert lab.closed()
    assert lab.ended[wire] == "closed"
    assert lab.codes == ["client.left"]
    lab.check()


def test_a_client_that_leaves_half_a_request_is_recorded() -> None:
    for scheme, rules in (("http", CLEAR), ("https", None)):
        lab = Lab(rules, scheme="http") if rules else Lab()
        lab.says(get("/v1/notes", "Content-Length: 10", method="POST") + b"half")
        lab.opens()
        lab.leaves()
        assert lab.closed(), scheme
        assert lab.codes == ["client.left"]
        assert lab.record.bytes_up == 4
        lab.check()


@pytest.mark.parametrize("stage", ["fetching", "connecting", "waiting", "reading"])
def test_whoever_leaves_at_any_stage_leaves_one_record(stage: str) -> None:
    lab = Lab(at_hand=stage != "fetching")
    lab.says(get())
    if stage in {"waiting", "reading"}:
        lab.opens()
    if stage == "reading":
        lab.answers(head("Content-Length: 10") + b"x")
    lab.do(lab.relay.gone())
    assert lab.codes == ["client.left"]
    assert all(lab.ended[wire] for wire in lab.ended)
    lab.check()
    if stage == "fetching":
        lab.fetches()
    lab.says(get())
    lab.waits(1000)
    assert len(lab.desk.records) == 1, "what comes later is nobody's"


# An upstream that lies ------------------------------------------------------------------------------------

HEAD = head("Server: nginx", "Content-Length: 5", "X-Echo: " + VALUE.decode())
ENDS = {
    "eof": lambda lab: lab.hangs_up(),
    "garbage": lambda lab: lab.answers(b"\0\r\n\0"),
    "shut": lambda lab: lab.shuts("proxy.stopping"),
    "silence": lambda lab: lab.waits(2000, steps=20),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_prefix_of_a_response_ends_in_one_record_and_a_code_that_is_known(end: str) -> None:
    most = len(HEAD) if end == "garbage" else len(HEAD) + 5
    for length in range(most):
        lab = Lab()
        lab.says(get())
        lab.opens()
        for byte in (HEAD + b"hello")[:length]:
            lab.answers(bytes([byte]))
        ENDS[end](lab)
        (code,) = lab.codes
        assert code in CODES
        assert code.startswith(("upstream.", "proxy.", "rule.allowed")), (end, length, code)
        lab.check()
        if length < len(HEAD) and end != "silence":
            (answer,) = lab.responses()
            assert answer.code == code
            assert answer.is_whole
        else:
            assert VALUE not in lab.sent[CLIENT_WIRE]


# Reloads, drains, and the audit -------------------------------------------------------------------------


def test_what_is_not_allowed_any_more_is_ended_and_what_still_is_goes_on() -> None:
    lab = Lab()
    lab.says(get())
    wire = lab.opens()
    lab.do(lab.relay.recheck(lab.desk.current, 0))
    assert lab.codes == []
    lab.do(lab.relay.recheck(policy_of(NOTHING), 0))
    assert lab.responses()[0].code == "access.withdrawn"
    assert lab.ended[wire] == "closed"
    lab.check()


def test_a_drain_answers_what_is_under_way_and_begins_nothing_else() -> None:
    lab = Lab()
    lab.says(get("/v1/one") + get("/v1/two"))
    lab.opens()
    lab.do(lab.relay.drain())
    assert not lab.closed()
    lab.answers(response())
    assert lab.closed()
    assert lab.responses()[0].headers["connection"] == "close"
    assert len(lab.requests()) == 1
    lab = Lab()
    lab.do(lab.relay.drain())
    assert lab.closed()


def test_a_drain_in_the_middle_of_a_response_does_not_take_the_next_request() -> None:
    lab = Lab()
    lab.says(get("/v1/one") + get("/v1/two"))
    lab.opens()
    lab.answers(head("Content-Length: 5") + b"he")
    lab.do(lab.relay.drain())
    lab.answers(b"llo")
    assert lab.closed()
    assert lab.responses()[0].is_whole
    assert len(lab.requests(1)) == 1


def test_what_cannot_be_recorded_is_not_sent() -> None:
    lab = Lab()
    lab.desk.is_stopped = True
    lab.says(get())
    assert not lab.opening
    assert lab.responses()[0].code == "audit.stopped"


def test_a_secret_that_cannot_be_had_denies() -> None:
    lab = Lab(at_hand=False)
    lab.says(get())
    lab.fetches({})
    assert not lab.opening
    assert lab.responses()[0].code == "secret.unavailable"
    lab.check()


@pytest.mark.parametrize("where", ["now", "new_exchange", "secrets", "begin", "sent", "finish"])
def test_whatever_fails_lets_nothing_out_and_leaves_one_record(where: str) -> None:
    """Fail closed: an entry that raises sends nothing, and `shut` then records what there is, once."""
    lab = Lab()
    lab.desk.fails_at = where
    target = "/admin" if where == "finish" else "/v1/user"
    if where == "sent":
        lab.says(get(target))
    with pytest.raises(ArithmeticError):
        lab.opens() if where == "sent" else lab.says(get(target))
    lab.desk.fails_at = ""
    lab.shuts()
    assert len(lab.desk.records) == 1
    if where != "finish":
        assert lab.codes == ["internal"]
    assert not any(lab.sent[wire] for wire in lab.sent if wire != CLIENT_WIRE)
    assert lab.closed()
