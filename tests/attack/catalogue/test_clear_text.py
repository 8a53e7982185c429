"""Clear text, and what is no HTTP: no secret crosses a wire as it is, nothing goes unread; classes 5, 11.

S-15, S-20, S-26, S-27 in the places where a connection changes what it speaks: upgrades, tunnels, ports.
"""

from __future__ import annotations

import pytest

from tests.attack.catalogue.proxy_entries import by_host, by_sni, by_tunnel, by_url, bytes_back, let_out
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import (
    ADDRESSES,
    ANY,
    API,
    BASIC,
    BLOCKING,
    COOKIE,
    DOOR,
    FRONT,
    HTTP2,
    KEYED,
    OTHER,
    PLAIN,
    QUERY,
    SCOPED,
    SOCKETS,
    STANDIN,
)
from tests.attack.lab.proxies import Egress, Proxy
from tests.unit.proxy.hellos import real

pytestmark = pytest.mark.system("ip", "iproute2")

INJECTED = (
    API,
    SCOPED,
    SOCKETS,
    HTTP2,
    KEYED,
    BASIC,
    QUERY,
    COOKIE,
    STANDIN,
    BLOCKING,
    FRONT,
    f"clear.{ANY}",
)
NO_CLEAR_TEXT = (403, "host.cleartext")
NO_WORDS = (0, "")


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


# Secrets in clear text ----------------------------------------------------------------------------


@case("S-15", "every host with a secret, in clear text, by every way in", Harm.CLEAR)
def test_every_host_with_a_secret_in_clear_text(lab: Lab, proxy: Proxy) -> None:
    """Whatever the shape of the secret is, and also on the port that TLS is spoken on."""
    for host in INJECTED:
        proxy.expects(by_url(proxy, host, "/repos/acme/app"), NO_CLEAR_TEXT)
        proxy.expects(by_url(proxy, f"{host}:443", "/repos/acme/app"), NO_CLEAR_TEXT)
        proxy.expects(by_host(proxy, host), NO_CLEAR_TEXT)
        proxy.expects(by_host(proxy, f"{host}:443", port=443), NO_CLEAR_TEXT)
        proxy.expects(by_tunnel(proxy, host, 80), (403, "host.port"))
    assert proxy.name == "naive" or not list(let_out(lab, proxy))


@case("S-15", "clear text inside of a tunnel for TLS", Harm.CLEAR)
def test_clear_text_inside_of_a_tunnel_for_tls(lab: Lab, proxy: Proxy) -> None:
    for host in INJECTED:
        with proxy.connect(f"{host}:443") as line:
            assert line.answer.status == 200
            proxy.expects(line.send(request(host, "/repos/acme/app")).finish().response(), NO_WORDS)


@case("S-15", "a host that is allowed in clear text", Harm.CLEAR)
def test_a_host_that_is_allowed_in_clear_text(lab: Lab, proxy: Proxy) -> None:
    """It is served, and holds no secret; the name of another one brings it none, nor does its stand-in."""
    proxy.expects(by_url(proxy, PLAIN), (200, ""))
    proxy.expects(by_host(proxy, PLAIN), (200, ""))
    for host in (API, KEYED, f"x.{ANY}"):
        proxy.expects(proxy.say(request(host, f"http://{PLAIN}/echo")), (421, "request.mismatch"))
        with proxy.connect(f"{PLAIN}:80") as line:
            proxy.expects(line.send(request(host)).response(), (421, "request.mismatch"))
        # A destination in itself here, where TLS would be spoken.
        proxy.expects(by_host(proxy, host), NO_CLEAR_TEXT)
    stand_in = proxy.stand_in()
    misplaced = (403, "placeholder.misplaced")
    for line_of_head in (
        f"x-api-key: {stand_in}",
        f"authorization: Bearer {stand_in}",
        f"cookie: a={stand_in}",
    ):
        proxy.expects(proxy.say(request(PLAIN, f"http://{PLAIN}/echo", line_of_head)), misplaced)
    proxy.expects(proxy.say(request(PLAIN, f"http://{PLAIN}/echo?{stand_in}")), misplaced)
    if proxy.name == "egress":
        assert not [each for each in lab.sent(proxy, lab.internet.plain) if each.headers("authorization")]


@case("S-15", "TLS where clear text is spoken, and the other way round", Harm.CLEAR)
def test_tls_where_clear_text_is_spoken(lab: Lab, proxy: Proxy) -> None:
    """Neither is turned into the other: not by the scheme, not by the port, not by a hint in a field."""
    if proxy.name == "egress":
        # The other one waits for a host that waits for it.
        for host in (PLAIN, API):
            proxy.expects(by_sni(proxy, host, port=80), (403, "host.port"))
        with proxy.connect(f"{PLAIN}:80") as line:
            assert line.answer.status == 200
            assert line.send(real(PLAIN)).finish().everything() == b""
    hints = (
        "upgrade-insecure-requests: 1",
        "x-forwarded-proto: https",
        "front-end-https: on",
        "x-url-scheme: https",
    )
    for hint in hints:
        proxy.expects(proxy.say(request(API, f"http://{API}/echo", hint)), NO_CLEAR_TEXT)
        proxy.expects(proxy.ask(API, request(API, "/small", hint.replace("https", "http"))), (200, ""))
    proxy.expects(proxy.ask(API, request(API, f"http://{API}/small")), (421, "request.mismatch"))
    proxy.expects(proxy.ask(API, request(API, f"http://{API}:443/small")), (421, "request.mismatch"))


# Another protocol ---------------------------------------------------------------------------------

PLANS = b"secret plans"
PROTOCOLS = {
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n" + PLANS,
    "SMTP": b"EHLO sandbox\r\n" + PLANS,
    "a question for a name": b"\0\x1d\x12\x34\1\0\0\1\0\0\0\0\0\0\4evil\4test\0\0\1\0\1" + PLANS,
    "PostgreSQL": b"\0\0\0\x08\x04\xd2\x16\x2f" + PLANS,
    "Redis": b"*1\r\n$4\r\nPING\r\n" + PLANS,
    "SOCKS": b"\x05\x01\x00" + PLANS,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + PLANS,
    "a frame of a WebSocket": b"\x82\x0c" + PLANS,
    "a record of TLS that is none": b"\x16\x03\x01\x00\x0c" + PLANS,
    "a record of another version": b"\x16\x02\x00\x00\x0c" + PLANS,
    "data before a greeting": b"\x17\x03\x03\x00\x0c" + PLANS,
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28" + PLANS,
    "an old greeting": b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + PLANS * 3,
    "a greeting with a long tail": real(OTHER)[:-4] + b"\xff\xff\xff\xff" + PLANS,
    "DTLS": b"\x16\xfe\xfd" + bytes(8) + b"\x00\x0c" + PLANS,
    "a blank line": b"\r\n" + PLANS,
    "a zero": b"\0" + PLANS,
    "nothing but text": PLANS,
}


@case("S-20", "protocols that are neither TLS nor HTTP, in tunnels of both kinds", Harm.SENT)
def test_protocols_that_are_neither_tls_nor_http(lab: Lab, proxy: Proxy) -> None:
    """At once with the CONNECT, behind its answer, and for those who know no proxy."""
    for data in PROTOCOLS.values():
        for place in (f"{OTHER}:443", f"{PLAIN}:80"):
            with proxy.connect(place) as line:
                assert line.answer.status == 200
                line.send(data).finish().everything()
            with proxy.dial() as line:
                line.send(f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n\r\n".encode() + data).finish()
                line.everything()
        for port in (80, 443):
            bytes_back(proxy, data, port)
    if proxy.name == "egress":
        assert not [each for each in let_out(lab, proxy) if each.kind == "tcp"]
    if lab.wait(proxy, lambda: _carried(lab, proxy)):
        raise Finding(Harm.SENT, "what is neither TLS nor HTTP was passed on")


def _carried(lab: Lab, proxy: Proxy) -> bool:
    proxy.wire.barrier()
    hosts = {ADDRESSES[OTHER], ADDRESSES[PLAIN]}
    return any(target[0] in hosts and PLANS in data for _, target, data in proxy.wire.carried())


@case("S-20", "TLS inside of TLS, and CONNECT inside of a tunnel", Harm.SENT)
def test_tls_inside_of_tls(lab: Lab, proxy: Proxy) -> None:
    """Whoever is asked for a tunnel by what is inside of one could be asked for anything."""
    for inner in (real(API), real(OTHER) + PLANS, request(f"{API}:443", f"{API}:443", method="CONNECT")):
        with proxy.tunnel(OTHER) as line:
            line.send(inner + b"\r\n\r\n" + PLANS).finish()
            back = line.response()
            assert proxy.name == "naive" or back.status in (0, 400, 403, 421), back
    if lab.wait(proxy, lambda: lab.heard(proxy, OTHER) != b""):
        raise Finding(Harm.SENT, "it was passed on")


UPGRADES = (
    ("connection: upgrade", "upgrade: h2c"),
    ("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__"),
    ("connection: Upgrade", "upgrade: H2C"),
    ("connection: upgrade", "upgrade: TLS/1.2"),
    ("connection: upgrade", "upgrade: TLS/1.2, HTTP/1.1"),
    ("connection: upgrade", "upgrade: h2c, websocket"),
    ("connection: upgrade", "upgrade: websocket, h2c"),
    ("connection: upgrade", "upgrade: websocket", "upgrade: h2c"),
    ("connection: upgrade", "upgrade: connect-udp", "capsule-protocol: ?1"),
    ("connection: upgrade", "upgrade: connect-ip"),
    ("connection: upgrade", "upgrade: SPDY/3.1"),
    ("connection: upgrade", "upgrade: tcp"),
    ("connection: upgrade", "upgrade: docker"),
    ("connection: upgrade", "upgrade: foo/1"),
    ("connection: keep-alive, upgrade", "upgrade: foo"),
    ("connection: upgrade", "upgrade: ssh", "upgrade: foo"),
)


@case("S-20", "requests that ask for another protocol", Harm.SENT)
def test_requests_that_ask_for_another_protocol(lab: Lab, proxy: Proxy) -> None:
    """Refused, or taken for a plain request; whatever comes behind is no other protocol."""
    for lines in UPGRADES:
        refused = ((403, "request.upgrade"), (426, "rule.websocket"), (400, "request.malformed"))
        proxy.expects(proxy.say(request(PLAIN, f"http://{PLAIN}/echo", *lines)), *refused)
        proxy.expects(proxy.ask(OTHER, request(OTHER, "/echo", *lines)), *refused)
        with proxy.dial((DOOR, 80)) as line:
            proxy.expects(line.send(request(PLAIN, "/echo", *lines)).response(), *refused)
    # Without the nomination it means nothing, and does not travel.
    for half in ("upgrade: h2c", "connection: upgrade"):
        answer = proxy.ask(OTHER, request(OTHER, "/echo", half))
        proxy.expects(answer, (200, ""), (403, "request.upgrade"), (400, "request.malformed"))
    for site in (lab.other, lab.internet.plain):
        if found := lab.sent(proxy, site, lambda each: bool(each.headers("upgrade"))):
            raise Finding(Harm.SENT, f"a host was asked for {found[0].header('upgrade')}")


@case("S-26", "the page of the engine below", Harm.LEAKED)
def test_the_page_of_the_engine_below(lab: Lab, proxy: Proxy) -> None:
    """Stock mitmproxy answers for a name and a path that it has chosen; both belong to others here."""
    unknown = (403, "host.unknown")
    for target in ("/", "/cert/pem", "/cert/p12", "/cert/cer", "/cert/magisk"):
        for host in ("mitm.it", "MITM.IT", "mitm.it."):
            proxy.expects(by_url(proxy, host, target), unknown)
            proxy.expects(by_host(proxy, host, target), unknown)
    for host in ("mitm.it", "www.mitm.it"):
        proxy.expects(by_tunnel(proxy, host), unknown)
        proxy.expects(by_tunnel(proxy, host, 80), unknown)
        proxy.expects(by_sni(proxy, host), unknown)
    # In a tunnel to somebody else it is a Host like any other.
    proxy.expects(proxy.ask(API, request("mitm.it", "/cert/pem")), (421, "request.mismatch"))
    proxy.expects(proxy.say(request("mitm.it", f"http://{PLAIN}/cert/pem")), (421, "request.mismatch"))
    serial = "/mitmproxy-" + "0" * 40 + ".crl"
    for path in ("/cert/pem", serial):
        answer = proxy.ask(OTHER, request(OTHER, path))
        assert answer.status == 404, answer
        assert not answer.code
    assert proxy.name == "naive" or len(lab.sent(proxy, lab.other)) == 2
