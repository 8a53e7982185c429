"""Classes 1, 3, 4, 5 and 11: one destination for each connection, named once, or no connection at all.

S-10, S-11 (the name inside a connection is not that of the connection), S-12, S-13 (spellings), S-14,
S-15 (ports and clear text), S-18 (addresses), S-20 (what a tunnel carries), S-24 (two Host fields), S-26
(pages of the proxy), S-27 (origin form), and their neighbours. Tests in this folder may not use the
network, so that none of this resolves a name or dials is shown by every one of them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from egress.exchange import Destination
from tests.unit.proxy.hellos import hello, real, server_name
from tests.unit.proxy.ingress_fixture import CARRIED, IngressFixture, code, connect, get, status

API = "api.example.com"
TUNNEL = connect(f"{API}:443")


@pytest.fixture(name="step")
def doorstep(monkeypatch: pytest.MonkeyPatch) -> Iterator[IngressFixture]:
    """A door in a house without a resolver: who looks up a name fails the test."""
    lookups: list[object] = []

    def look_up(*names: object, **_: object) -> NoReturn:
        lookups.append(names)
        raise OSError("no resolver here")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        monkeypatch.setattr(socket, name, look_up)
    step = IngressFixture()
    yield step
    step.close()
    assert not lookups
    assert "internal" not in step.codes


def refused(step: IngressFixture, *expected: str) -> None:
    """Nothing reached a lane, and there is one record for each refusal."""
    assert not step.arrivals
    assert step.codes == list(expected)


# Positive controls ------------------------------------------------------------------------------


async def test_control_a_tunnel_to_a_named_host_is_carried(step: IngressFixture) -> None:
    answer = await step.ask(TUNNEL, real(API))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(CARRIED + b"full")
    assert [admitted.destination for admitted in step.arrivals] == [Destination("https", API, 443)]
    assert step.codes == []


async def test_control_a_plain_request_to_an_open_host_is_carried(step: IngressFixture) -> None:
    request = get("http://plain.example.com/x?y", "plain.example.com")
    assert await step.ask(request) == CARRIED + b"full"
    assert [admitted.destination for admitted in step.arrivals] == [
        Destination("http", "plain.example.com", 80)
    ]
    assert step.ahead == [request]


async def test_control_transparent_clients_are_carried(step: IngressFixture) -> None:
    first = real(API)
    assert await step.ask(first, listener=step.listener("transparent", 443)) == CARRIED + b"full"
    second = get("/x", "plain.example.com")
    assert await step.ask(second, listener=step.listener("transparent", 80)) == CARRIED + b"full"
    assert [admitted.entry for admitted in step.arrivals] == ["sni", "host"]
    assert step.ahead == [first, second]


# The name of the destination --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["API.EXAMPLE.COM", "api.example.com.", "Api.Example.Com."])
async def test_case_and_trailing_dot_lead_to_the_same_host(step: IngressFixture, name: str) -> None:
    """S-12: the destination is the canonical one, whatever was written."""
    await step.ask(connect(f"{name}:443"), real(API))
    await step.ask(TUNNEL, real(name.rstrip(".")))
    assert [admitted.destination.host for admitted in step.arrivals] == [API, API]


@pytest.mark.parametrize(
    "name",
    [
        "evil-api.example.com", "api.example.com.evil.example", "xapi.example.com", "api.example.co",
        "example.com", "static.example.com", "a.b.static.example.com", "a.api.example.com", "localhost",
        "c2VjcmV0.evil.example", "mitm.it",
    ],
)  # fmt: skip
async def test_a_name_that_is_only_alike_is_denied_at_every_entry(step: IngressFixture, name: str) -> None:
    """S-01, S-13, S-26: by CONNECT, full URL, SNI and Host alike, and nobody asks DNS about it."""
    answer = await step.ask(connect(f"{name}:443"), ends=False)
    assert (status(answer), code(answer)) == (403, "host.unknown")
    answer = await step.ask(get(f"http://{name}/cert/pem", name))
    assert (status(answer), code(answer)) == (403, "host.unknown")
    alert = await step.ask(real(name), listener=step.listener("transparent", 443))
    assert alert == bytes.fromhex("15030300020270")
    answer = await step.ask(get("/", name), listener=step.listener("transparent", 80))
    assert status(answer) == 403
    refused(step, *["host.unknown"] * 4)


async def test_a_closed_host_is_denied(step: IngressFixture) -> None:
    assert code(await step.ask(connect("closed.example.com:443"))) == "host.closed"
    alert = await step.ask(real("closed.example.com"), listener=step.listener("transparent", 443))
    assert alert == bytes.fromhex("15030300020231")
    refused(step, "host.closed", "host.closed")


TARGETS = [
    "api.example.com", "api.example.com:", "api.example.com:0", "api.example.com:00443",
    "api.example.com:0443", "api.example.com:65536", "api.example.com:99999", "api.example.com:443:443",
    "api.example.com:+443", "api.example.com:-1", "api.example.com:4 43", "api.example.com:0x1bb",
    "api.example.com:https", "api.example.com:443/", "api.example.com:443/x", "api.example.com:443?",
    "api.example.com:443#", "api.example.com/:443", ":443", "", "*", "/", "https://api.example.com:443",
    "http://api.example.com/", "//api.example.com:443", "user@api.example.com:443",
    "api.example.com:443@evil.example:443", "u:p@api.example.com:443", "[api.example.com]:443",
    "[[api.example.com]]:443", "[api.example.com:443", "api.example.com]:443", "[]:443", "[",
    "api.example.com\x00:443", "api.example.com\x00.evil.example:443", "evil.example%00.example.com:443",
    "api%2eexample%2ecom:443", "api。example。com:443".encode().decode("latin-1"), "api.example.com\xad:443",
    "\xef\xbd\x81pi.example.com:443", "api..example.com:443", ".api.example.com:443", "api.example.com..:443",
    "api.example.com\t:443", "api.example.com\\.evil.example:443", "api.example.com;.evil.example:443",
    "api.example.com,evil.example:443", "*.static.example.com:443", "a" * 64 + ".static.example.com:443",
    ("a." * 130) + "static.example.com:443", "xn--.static.example.com:443", "xn--a.static.example.com:443",
    "a" * 20_000 + ":443",
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=range(len(TARGETS)))
async def test_a_target_that_is_no_host_and_port_is_refused(step: IngressFixture, target: str) -> None:
    """Class 4: each spelling is refused, never repaired; no byte of it is shown or recorded unescaped."""
    answer = await step.ask(connect(target, host=f"{API}:443"))
    assert status(answer) in (400, 414)
    assert code(answer) in ("host.malformed", "request.malformed")
    refused(step, code(answer))
    record = step.last
    assert record.host.isascii()
    assert record.host.isprintable()
    assert len(record.host) < 128
    assert b"evil" not in answer
    assert b"example" not in answer


# Addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "host"), [("192.0.2.7", "192.0.2.7"), ("[2001:db8::7]", "2001:db8::7")])
async def test_control_an_address_that_networks_open_is_carried(
    step: IngressFixture, target: str, host: str
) -> None:
    await step.ask(connect(f"{target}:443"), real(None))
    assert [admitted.destination for admitted in step.arrivals] == [Destination("https", host, 443)]


@pytest.mark.parametrize(
    "target",
    [
        "192.0.2.07", "192.0.2.007", "192.0.519", "3221225991", "0xc0000207", "0300.0.2.7", "192.0.2.7.",
        "[192.0.2.7]", "[::ffff:192.0.2.7]", "[::ffff:c000:207]", "[2001:DB8::7]", "[2001:db8:0::7]",
        "[2001:0db8::7]", "[2001:db8:0:0:0:0:0:7]", "[2001:db8::7%25eth0]", "[2001:db8::7%eth0]",
        "2001:db8::7", "[2001:db8::0.0.0.7]", "192.0.2.7@evil.example", "192.0.2",
    ],
)  # fmt: skip
async def test_another_spelling_of_an_open_address_is_refused(step: IngressFixture, target: str) -> None:
    """Class 15: a resolver would read most of these as the same address; the rules do not."""
    answer = await step.ask(connect(f"{target}:443"))
    assert status(answer) in (400, 403)
    refused(step, code(answer))


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "10.0.0.1", "[::1]", "[fd00:ec2::254]"])
async def test_an_address_that_no_rule_opens_is_denied(step: IngressFixture, address: str) -> None:
    """S-18."""
    assert code(await step.ask(connect(f"{address}:443"))) == "host.literal"
    assert code(await step.ask(get(f"http://{address}/latest/", address))) == "host.literal"
    answer = await step.ask(get("/latest/", address), listener=step.listener("transparent", 80))
    assert code(answer) == "host.literal"
    refused(step, *["host.literal"] * 3)


# Ports and clear text ---------------------------------------------------------------------------


@pytest.mark.parametrize("port", [8443, 80, 22, 53, 1, 65535])
async def test_another_port_of_an_allowed_host_is_denied(step: IngressFixture, port: int) -> None:
    """S-14, also port 53 of class 11."""
    assert code(await step.ask(connect(f"{API}:{port}"))) == "host.port"
    await step.ask(real(API), listener=step.listener("transparent", port))
    refused(step, "host.port", "host.port")


async def test_control_a_port_that_the_rules_name_is_open(step: IngressFixture) -> None:
    await step.ask(connect("ported.example.com:8443"), real("ported.example.com"))
    await step.ask(real("ported.example.com"), listener=step.listener("transparent", 8443))
    assert [admitted.destination.port for admitted in step.arrivals] == [8443, 8443]


@pytest.mark.parametrize("port", ["", ":80", ":443", ":8080"])
async def test_clear_text_to_an_https_host_is_denied(step: IngressFixture, port: str) -> None:
    """S-15: by full URL, and by Host."""
    assert code(await step.ask(get(f"http://{API}{port}/", f"{API}{port}"))) == "host.cleartext"
    listener = step.listener("transparent", int(port[1:] or 80))
    assert code(await step.ask(get("/", f"{API}{port}"), listener=listener)) == "host.cleartext"
    refused(step, "host.cleartext", "host.cleartext")


@pytest.mark.parametrize(
    "first", [get("/", API), b"POST / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
async def test_clear_text_inside_a_tunnel_for_tls_is_closed(step: IngressFixture, first: bytes) -> None:
    """S-15, by the back door."""
    answer = await step.ask(TUNNEL, first)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    refused(step, "protocol.refused")


async def test_control_a_tunnel_for_clear_text_carries_it(step: IngressFixture) -> None:
    request = get("/", "plain.example.com")
    await step.ask(connect("plain.example.com:80"), request)
    assert [admitted.destination for admitted in step.arrivals] == [
        Destination("http", "plain.example.com", 80)
    ]
    assert step.ahead == [request]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (real("plain.example.com"), "protocol.refused"),
        (b"SSH-2.0-x\r\n\r\n", "request.malformed"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "request.malformed"),
        (get("/", API), "request.mismatch"),
        (get("/", "plain.example.com:8080"), "request.mismatch"),
        (get("/", "plain.example.com", f"Host: {API}"), "request.malformed"),
        (get("http://plain.example.com/", "plain.example.com"), "request.malformed"),
        (connect("api.example.com:443"), "request.malformed"),
        (connect("plain.example.com:80"), "request.malformed"),
        (b"GET / HTTP/1.0\r\n\r\n", "request.mismatch"),
    ],
)
async def test_a_tunnel_for_clear_text_carries_requests_to_its_host_alone(
    step: IngressFixture, first: bytes, expected: str
) -> None:
    """Class 11, CONNECT inside of CONNECT included."""
    await step.ask(connect("plain.example.com:80"), first)
    refused(step, expected)
    assert step.last.host == "plain.example.com"


# Two names for one connection -------------------------------------------------------------------


async def test_a_tunnel_to_an_unknown_host_gains_nothing_from_a_known_name(step: IngressFixture) -> None:
    """S-10: Host and SNI name the host with the credential; the tunnel leads elsewhere."""
    assert status(await step.ask(connect("evil.example:443", host=f"{API}:443"), ends=False)) == 421
    assert status(await step.ask(connect("evil.example:443") + real(API))) == 403
    assert status(await step.ask(get("http://evil.example/", API))) == 421
    refused(step, "request.mismatch", "host.unknown", "request.mismatch")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:443", f"{API}:8443", "ported.example.com", ""]
)
async def test_a_connect_whose_host_field_names_another_is_refused(step: IngressFixture, host: str) -> None:
    """S-11."""
    answer = await step.ask(connect(f"{API}:443", host=host))
    assert status(answer) in (400, 421)
    refused(step, code(answer))


@pytest.mark.parametrize("host", [API, f"{API}:443", "API.example.com.:443"])
async def test_control_a_connect_may_leave_the_port_out_of_host(step: IngressFixture, host: str) -> None:
    await step.ask(connect(f"{API}:443", host=host), real(API))
    assert len(step.arrivals) == 1


@pytest.mark.parametrize("name", ["evil.example", "ported.example.com", "a.api.example.com", "example.com"])
async def test_a_hello_that_names_another_host_is_refused(step: IngressFixture, name: str) -> None:
    """S-11: an allowed tunnel, another SNI; also where bytes would pass unread."""
    for host in (API, "pinned.example.com"):
        answer = await step.ask(connect(f"{host}:443"), real(name))
        assert answer.endswith(bytes.fromhex("15030300020270"))
    refused(step, "request.mismatch", "request.mismatch")
    assert [(record.host, record.sni) for record in step.house.audit.refusals] == [
        (API, name),
        ("pinned.example.com", name),
    ]


@pytest.mark.parametrize(
    "first",
    [
        hello(server_name(b"api.example.com", b"evil.example")),
        hello(server_name(b"api.example.com"), server_name(b"evil.example")),
        hello(server_name(b"api.example.com\x00")),
        hello(server_name(b"api.example.com\x00.evil.example")),
        hello(server_name(b"evil.example", kind=1)),
        hello(server_name(b"[api.example.com]")),
        hello(server_name(b"192.0.2.7")),
        hello(server_name(b"")),
    ],
)
async def test_a_hello_with_an_unclear_name_is_refused(step: IngressFixture, first: bytes) -> None:
    await step.ask(TUNNEL, first)
    await step.ask(first, listener=step.listener("transparent", 443))
    refused(step, "protocol.refused", "protocol.refused")


async def test_a_hello_inside_a_tunnel_may_name_nobody(step: IngressFixture) -> None:
    await step.ask(TUNNEL, real(None))
    assert len(step.full.arrivals) == 1


async def test_a_transparent_hello_must_name_its_host(step: IngressFixture) -> None:
    await step.ask(real(None), listener=step.listener("transparent", 443))
    refused(step, "host.malformed")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (get("/", "plain.example.com:8080"), "request.mismatch"),
        (get("/", "plain.example.com:443"), "request.mismatch"),
        (get("http://plain.example.com/", "plain.example.com"), "request.malformed"),
        (get("http://api.example.com/", "plain.example.com"), "request.malformed"),
        (connect("plain.example.com:80"), "request.malformed"),
        (b"GET / HTTP/1.0\r\n\r\n", "host.malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "request.malformed"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "request.malformed"),
        (b"SSH-2.0-x\r\n", "request.malformed"),
        (b"\x00\x00\x00\x01", "protocol.refused"),
        (b"\r\n", "protocol.refused"),
    ],
)
async def test_a_transparent_request_must_name_its_host(
    step: IngressFixture, first: bytes, expected: str
) -> None:
    await step.ask(first, listener=step.listener("transparent", 80))
    refused(step, expected)


@pytest.mark.parametrize(
    "request_head",
    [
        get("http://plain.example.com/", "plain.example.com", f"Host: {API}"),
        get("http://plain.example.com/", "plain.example.com", "Host: plain.example.com"),
        connect(f"{API}:443", f"Host: {API}:443"),
    ],
)
async def test_two_host_fields_are_refused(step: IngressFixture, request_head: bytes) -> None:
    """S-24."""
    assert status(await step.ask(request_head)) == 400
    refused(step, "request.malformed")


# Forms and protocols ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_head",
    [
        get("/", "plain.example.com"),
        get("/", "127.0.0.1:3128"),
        get("/cert/pem", "mitm.it"),
        get("*", "plain.example.com", method="OPTIONS"),
        get("https://api.example.com/", API),
        get("HTTPS://api.example.com:443/", f"{API}:443"),
    ],
)
async def test_a_request_that_is_not_for_a_proxy_goes_nowhere(
    step: IngressFixture, request_head: bytes
) -> None:
    """S-27: Host decides nothing here, and https is not spoken in the clear."""
    assert status(await step.ask(request_head)) == 400
    refused(step, "proxy.form")


@pytest.mark.parametrize(
    "request_head",
    [
        get("http://user@plain.example.com/", "plain.example.com"),
        get("http://u:p@plain.example.com/", "plain.example.com"),
        get("http://plain.example.com?x", "plain.example.com"),
        get("http://plain.example.com#x", "plain.example.com"),
        get("http://plain.example.com\\@evil.example/", "plain.example.com"),
        get("http:///plain.example.com/", "plain.example.com"),
        get("ftp://plain.example.com/", "plain.example.com"),
        get("ws://plain.example.com/", "plain.example.com"),
        get("http://plain.example.com:080/", "plain.example.com"),
        get("http://[plain.example.com]/", "plain.example.com"),
        get("http://plain.example.com:/", "plain.example.com"),
        b"GET http://plain.example.com/ HTTP/1.1\nHost: plain.example.com\n\n",
        b"GET http://plain.example.com/\r\n\r\n",
        b"GET  http://plain.example.com/ HTTP/1.1\r\nHost: plain.example.com\r\n\r\n",
    ],
)
async def test_a_full_url_with_two_readings_is_refused(step: IngressFixture, request_head: bytes) -> None:
    assert status(await step.ask(request_head)) == 400
    assert not step.arrivals
    assert len(step.codes) == 1


@pytest.mark.parametrize(
    "first",
    [
        real(API),
        b"\x05\x01\x00",
        b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00api.example.com\x00",
        b"\x00\x01\x02",
        b"\r\n\r\n" + TUNNEL,
        b" " + TUNNEL,
        b"\x80\x2e\x01\x00\x02",
    ],
)
async def test_another_protocol_on_the_proxy_port_is_closed_without_a_word(
    step: IngressFixture, first: bytes
) -> None:
    """Class 11: TLS, SOCKS, and what is nothing at all."""
    assert await step.ask(first) == b""
    refused(step, "protocol.refused")


@pytest.mark.parametrize(
    "inside",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\x00\x00\x00", b"\n", b"EHLO evil.example\r\n", b"\x05\x01\x00",
        b"\x15\x03\x03\x00\x02\x02\x31", b"\x17\x03\x03\x00\x05hello", b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\xff\xff" + b"x" * 64,
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01x", TUNNEL, b"\x16" + b"A" * 100, b"GET / HTTP/1.1\r\n\r\n",
    ],
)  # fmt: skip
async def test_raw_bytes_inside_a_tunnel_are_not_relayed(step: IngressFixture, inside: bytes) -> None:
    """S-20: for intercepted and for pinned hosts alike."""
    for host in (API, "pinned.example.com"):
        await step.ask(connect(f"{host}:443"), inside)
        await step.ask(connect(f"{host}:443") + inside)
    refused(step, *["protocol.refused"] * 4)


async def test_what_is_sent_ahead_of_the_answer_is_kept(step: IngressFixture) -> None:
    """The first bytes of the tunnel may come with the CONNECT; not one of them is lost or judged twice."""
    first = real(API)
    answer = await step.ask(TUNNEL + first)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + CARRIED + b"full"
    assert step.ahead == [first]


@pytest.mark.parametrize("lines", [("Content-Length: 4",), ("Transfer-Encoding: chunked",)])
async def test_a_connect_with_a_body_is_refused(step: IngressFixture, lines: tuple[str, ...]) -> None:
    """Class 8: a body before the tunnel could be read as its beginning."""
    assert status(await step.ask(connect(f"{API}:443", *lines) + b"abcd")) == 400
    refused(step, "request.malformed")


async def test_a_header_decides_about_no_identity(step: IngressFixture) -> None:
    """Rule 11: where the network says who it is, Proxy-Authorization is not looked at."""
    await step.ask(connect(f"{API}:443", "Proxy-Authorization: Basic b3RoZXI6eA=="), real(API))
    assert [admitted.identity.sandbox for admitted in step.arrivals] == ["box"]


async def test_observing_opens_names_but_no_other_protocol(step: IngressFixture) -> None:
    """What `mode: observe` lifts is the missing rule, not the shape of what is carried."""
    from tests.unit.rules.rule_samples import policy

    step.house.policy = policy("mode: observe\nhosts: {}")
    await step.ask(connect("new.example:443"), real("new.example"))
    assert len(step.arrivals) == 1
    await step.ask(connect("new.example:443"), b"SSH-2.0-x\r\n")
    await step.ask(connect("new.example:443"), real("other.example"))
    await step.ask(connect("169.254.169.254:443"))
    assert step.codes == ["protocol.refused", "request.mismatch", "host.literal"]
