"""Where a request may go: one destination, named once, by every way in; classes 1, 2, 3, 5, 11, 29.

S-01 and what else is denied before anything is asked or dialled, S-02, S-03, S-10, S-11, S-14, S-24, S-27.
"""

from __future__ import annotations

import pytest

from tests.attack.catalogue.proxy_entries import (
    REASONS,
    UNREAD,
    by_connect,
    by_host,
    by_name,
    by_sni,
    by_tunnel,
    by_url,
    bytes_back,
    expects_denied_name,
    lead_to_front,
    let_out,
)
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ADDRESSES, ANY, API, BEHIND, DOOR, EVIL, FRONT, OTHER, PLAIN, SCOPED
from tests.attack.lab.proxies import LISTEN, Egress, Proxy
from tests.proxy.lab.http1 import Fields
from tests.unit.proxy.hellos import hello, protocols, real, server_name, versions

pytestmark = pytest.mark.system("ip", "iproute2")

NO_WORDS = (0, "")
"""The connection ends, after an alert or without one."""
MISMATCH = (421, "request.mismatch")
UNKNOWN = (403, "host.unknown")
MALFORMED = (400, "request.malformed")


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


# Denied, and why ----------------------------------------------------------------------------------


@case("S-01", "a host that no rule names, by every way in", Harm.REACHED)
def test_a_host_that_no_rule_names_by_every_way_in(lab: Lab, proxy: Proxy) -> None:
    unknown = (403, "host.unknown")
    for name in (EVIL, f"deep.down.{EVIL}", f"api-good-test.{EVIL}"):
        proxy.expects(by_tunnel(proxy, name), unknown)
        proxy.expects(by_url(proxy, name), unknown)
        proxy.expects(by_host(proxy, name), unknown)
        proxy.expects(by_sni(proxy, name), unknown)
        expects_denied_name(proxy, by_name(proxy, name), name)


@case("S-01 S-14", "a host that is denied by time, profile, port, or a rule", Harm.ASKED)
def test_a_denied_host_is_not_even_asked_for(lab: Lab, proxy: Proxy) -> None:
    """Whatever the reason is, it is found before a name is resolved: a question alone carries data out."""
    for name, code in REASONS.items():
        refused = (403, code)
        proxy.expects(by_tunnel(proxy, name), refused)
        proxy.expects(by_url(proxy, name), refused, (403, "host.cleartext"))
        proxy.expects(by_host(proxy, name), refused, (403, "host.cleartext"))
        proxy.expects(by_sni(proxy, name), refused)
        # Its name leads to the door, which asks nobody.
        expects_denied_name(proxy, by_name(proxy, name), name)
    if lab.wait(proxy, lambda: list(let_out(lab, proxy))):
        raise Finding(Harm.REACHED, "something left the proxy for a host that is denied")


@case("S-01", "what is asked and dialled before a request is allowed", Harm.ASKED)
def test_nothing_is_asked_or_dialled_before_a_request_is_allowed(lab: Lab, proxy: Proxy) -> None:
    """An open tunnel is a look-up and a port scan, if it dials at once."""
    for step, data in enumerate(
        (
            b"",
            b"GET /echo HTTP/1.1\r\nhost: ",
            request(EVIL),
            request(f"early-3.{ANY}", method="TRACE"),
            request(f"early-4.{ANY}", "/a/../../b"),
            request(f"early-5.{ANY}", "/echo", "upgrade: h2c", "connection: upgrade"),
        )
    ):
        name = f"early-{step}.{ANY}"
        lab.dns.set(name, ADDRESSES[f"*.{ANY}"])
        with proxy.tunnel(name) as line:
            assert line.answer.status == 200, line.answer
            line.send(data).finish()
            answer = Answer(line.everything())
            assert proxy.name == "naive" or answer.status in (0, 400, 403, 421), (data, answer)
    proxy.expects(proxy.ask(SCOPED, request(SCOPED, "/user")), (403, "rule.none"))
    if found := lab.wait(proxy, lambda: list(let_out(lab, proxy))):
        raise Finding(Harm.ASKED, f"{found[0]}, and nothing was allowed yet")


@case("S-02", "no rules at the start", Harm.REACHED)
def test_no_rules_at_the_start(lab: Lab, proxy: Proxy) -> None:
    """Then there is no proxy; one that knows no rules would serve everybody."""
    if not isinstance(proxy, Egress):
        by_connect(proxy, EVIL)
        return
    with_none, with_empty = lab.make_egress(), lab.make_egress()
    with_none.rules.unlink()
    with_empty.rules.write_text("")
    try:
        for own in (with_none, with_empty):
            own.begin()
        for own in (with_none, with_empty):
            assert own.ended() in (1, 3), own.said
            assert "error: " in own.said
            with pytest.raises(ConnectionRefusedError):
                own.dial()
            own.wire.barrier()
            assert [each.target for each in own.wire.opened] == [LISTEN]
    finally:
        with_none.close()
        with_empty.close()


@case("S-03", "an allowed host without a rule for a secret", Harm.STOLEN)
def test_an_allowed_host_without_a_rule_for_a_secret(lab: Lab, proxy: Proxy) -> None:
    """It gets none, whoever the client says it is; its own credential travels as it is."""
    own = "authorization: Bearer my-own"
    proxy.expects(proxy.ask(OTHER, request(OTHER, "/echo", own)), (200, ""))
    proxy.expects(proxy.ask(OTHER.upper(), request(OTHER.upper() + ".")), (200, ""))
    proxy.expects(by_sni(proxy, OTHER), (200, ""))
    found = lab.sent(proxy, lab.other)
    assert proxy.name == "naive" or [each.headers("authorization") for each in found] == [
        ["Bearer my-own"],
        [],
        [],
    ]
    for line in (f"x-forwarded-host: {API}", f"forwarded: host={API}", f"referer: https://{API}/"):
        proxy.expects(proxy.ask(OTHER, request(OTHER, "/echo", line)), (200, ""))
    proxy.expects(proxy.ask(OTHER, request(API)), MISMATCH)


# Another name inside ------------------------------------------------------------------------------

NAMED_TWICE = (
    EVIL,
    OTHER,
    f"{API}.{EVIL}",
    f"{EVIL}/{API}",
    f"{API}@{EVIL}",
    f"{EVIL}@{API}",
    f"{API}:443@{EVIL}",
    f"{API}, {EVIL}",
    f"{API} {EVIL}",
    f"{API}:8443",
    f"{API}:80",
    f"[{API}]",
    f"{API}#.{EVIL}",
    f"{API}\\.{EVIL}",
    f"{API}%00.{EVIL}",
    "",
    ADDRESSES[API],
)


@case("S-10", "a tunnel to the attacker, and the name of the api everywhere else", Harm.STOLEN)
def test_a_tunnel_to_the_attacker_and_the_name_of_the_api_everywhere_else(lab: Lab, proxy: Proxy) -> None:
    unknown = (403, "host.unknown")
    proxy.expects(proxy.ask(EVIL, request(API), sni=EVIL), unknown)
    proxy.expects(proxy.ask(EVIL, request(f"{API}:443")), unknown)
    proxy.expects(proxy.ask(EVIL, request(API, f"https://{API}/echo")), unknown)
    proxy.expects(proxy.ask(EVIL, request(EVIL, "/echo", f"host: {API}")), MALFORMED)
    proxy.expects(proxy.say(request(API, f"http://{EVIL}/echo")), MISMATCH)
    proxy.expects(proxy.say(request(f"{API}:80", f"http://{EVIL}:80/echo")), MISMATCH)
    with proxy.dial() as line:
        line.send(request(API, f"{EVIL}:443", method="CONNECT"))
        proxy.expects(line.response("CONNECT"), MISMATCH)
    with proxy.tunnel(EVIL, alpn=("h2",)) as line:
        stream = Http2(line).ask(API)
        if proxy.name == "egress":
            assert (stream.status, stream.header("egress-denied")) == unknown


@case("S-11", "a tunnel to the api, and another name in the request", Harm.STOLEN)
def test_a_tunnel_to_the_api_and_another_name_in_the_request(lab: Lab, proxy: Proxy) -> None:
    for host in NAMED_TWICE:
        proxy.expects(proxy.ask(API, request(host)), MISMATCH, MALFORMED)
    for target in (f"https://{EVIL}/echo", f"http://{API}/echo", f"https://{API}@{EVIL}/echo", f"{EVIL}:443"):
        proxy.expects(proxy.ask(API, request(API, target)), MISMATCH, MALFORMED)
    # Those who know no proxy: SNI opens the connection, and holds for all that is said on it.
    for host in (EVIL, OTHER, f"{API}:8443"):
        proxy.expects(by_sni(proxy, API, request(host)), MISMATCH)
    if lab.sent(proxy, lab.api):
        raise Finding(Harm.STOLEN, "the secret went out in another name")


ODD_HEADS: tuple[Fields, ...] = (
    head(EVIL),
    head(f"{API}@{EVIL}"),
    head(f"{API}:8443"),
    (*head(API), (":authority", EVIL)),
    (*head(API), ("host", EVIL)),
    ((":method", "GET"), (":scheme", "https"), (":path", "/echo"), ("host", EVIL)),
    ((":method", "GET"), (":scheme", "https"), (":path", "/echo")),
    ((":method", "GET"), (":scheme", "http"), (":authority", API), (":path", "/echo")),
    ((":method", "GET"), (":scheme", "https"), (":authority", API), (":path", f"https://{EVIL}/echo")),
    ((":method", "CONNECT"), (":authority", f"{EVIL}:443")),
)


@case("S-11", "the same in HTTP/2", Harm.STOLEN)
def test_another_authority_in_http2(lab: Lab, proxy: Proxy) -> None:
    for fields in ODD_HEADS:
        with proxy.tunnel(API, alpn=("h2",)) as line:
            speaker = Http2(line)
            stream = speaker.whole(speaker.start(*fields))
            refused = stream.header("egress-denied") in ("request.mismatch", "path.ambiguous")
            gone = stream.reset is not None or speaker.goaway is not None
            assert proxy.name == "naive" or refused or gone, (fields, stream.status)
    if proxy.name == "egress" and lab.sent(proxy, lab.api):
        raise Finding(Harm.STOLEN, "the secret went out in another name")


@case("S-11", "a greeting that names another host than the tunnel", Harm.ASKED)
def test_a_greeting_that_names_another_host(lab: Lab, proxy: Proxy) -> None:
    """SNI steers nothing: neither where to, nor who has to prove what, nor which certificate is shown."""
    for name in (EVIL, OTHER, BEHIND, f"x.{API}", "good.test"):
        for host in (API, FRONT):
            proxy.expects(proxy.ask(host, request(host), sni=name, verify=False), NO_WORDS)
    for same in (API.upper(), f"{API}.", None):
        with proxy.tunnel(API, sni=same, verify=False) as line:
            line.send(request(API, "/small"))
            proxy.expects(line.response(), (200, ""))
    if proxy.name == "egress":
        assert not {*lab.connections(proxy, FRONT), *lab.connections(proxy, OTHER)}


@case(
    "S-11",
    "a greeting with no name, a number, two names, or an empty one",
    naive="it reads no more of a greeting than OpenSSL does, and that refuses what is broken",
    twin="test_a_greeting_that_names_another_host",
)
def test_a_greeting_that_cannot_be_read_in_one_way(lab: Lab, proxy: Proxy) -> None:
    """Inside of a tunnel, and where the name in the greeting is all that says where to."""
    api, evil = API.encode(), EVIL.encode()
    more = (versions(0x304), protocols(b"http/1.1"))
    broken = (
        hello(server_name(api, evil), *more),
        hello(server_name(evil, api), *more),
        hello(server_name(api), server_name(evil), *more),
        hello(server_name(b""), *more),
        hello((0, b""), *more),
        hello((0, b"\0\0"), *more),
        hello(server_name(b"127.0.0.1"), *more),
        hello(server_name(b"169.254.169.254"), *more),
        hello(server_name(b"[::1]"), *more),
        hello(server_name(api + b"\0" + evil), *more),
        hello(server_name(api + b"\0"), *more),
        hello(server_name(api + b"@" + evil), *more),
        hello(server_name(b"*." + ANY.encode()), *more),
        hello(server_name(api, kind=1), *more),
        hello(server_name(api + b":443"), *more),
        hello(server_name(b"\xef\xbd\x81pi.good.test"), *more),
    )
    for data in broken:
        with proxy.connect(f"{API}:443") as line:
            assert line.answer.status == 200
            assert line.send(data).finish().everything().startswith(b"\x15\x03\x03\x00\x02\x02"), data
        assert bytes_back(proxy, data).startswith(b"\x15\x03\x03\x00\x02\x02"), data
    # Without a name there is nowhere to go, but inside of a tunnel.
    assert bytes_back(proxy, real(None)).startswith(b"\x15\x03\x03\x00\x02\x02")
    assert not list(let_out(lab, proxy))


@case("S-11", "another host behind the address of one that is carried unread", Harm.ASKED)
def test_another_host_behind_the_address_of_one_that_is_carried_unread(lab: Lab, proxy: Proxy) -> None:
    """Nobody reads what is inside, so the name in the greeting is all that tells fronting."""
    lead_to_front(lab)
    for name in (BEHIND, FRONT, None):
        proxy.expects(proxy.ask(UNREAD, request(BEHIND), sni=name, verify=False), NO_WORDS)
    if lab.heard(proxy, FRONT):
        raise Finding(Harm.SENT, "the host behind was greeted")


@case(
    "S-11",
    "a greeting that may hide a second one",
    naive="it knows of no host that is carried unread, and ends all TLS itself",
    twin="test_a_plain_greeting_is_carried_unread",
)
def test_a_greeting_that_may_hide_a_second_one(lab: Lab, proxy: Proxy) -> None:
    """Encrypted ClientHello, and the drafts before it: where bytes pass unread, the inner name would decide.

    Where TLS ends at the proxy there is nothing that could read the inner name, so the outer one holds.
    """
    lead_to_front(lab)
    alert = b"\x15\x03\x03\x00\x02\x02\x70"
    for kind in (0xFE0D, 0xFE0C, 0xFE09, 0xFF02 + 0xCC, 0xFFCE):
        data = hello(server_name(UNREAD.encode()), (kind, b"\0\0\1\0\1\0\0\x20" + bytes(64)), versions(0x304))
        with proxy.connect(f"{UNREAD}:443") as line:
            back = line.send(data).finish().everything()
        assert (back == alert) == (kind != 0xFF02 + 0xCC or kind == 0xFFCE), kind
        if kind in (0xFE0D, 0xFFCE):
            assert bytes_back(proxy, data) == alert
    assert not lab.heard(proxy, FRONT)


def test_a_plain_greeting_is_carried_unread(lab: Lab, egress: Egress) -> None:
    """The good twin: the host is reached, and it is its own certificate that the client gets to see."""
    lab.begin(egress)
    lead_to_front(lab)
    with egress.connect(f"{UNREAD}:443") as line:
        assert not line.to_tls(lab.certs.ca_pem, UNREAD)
        assert "HOSTNAME" in line.failure.upper() or "VERIFY" in line.failure.upper()
    assert [each.target for each in let_out(lab, egress) if each.kind == "tcp"] == [(ADDRESSES[FRONT], 443)]
    must_be_none(lab.harms(egress))


# Ports --------------------------------------------------------------------------------------------


@case("S-14", "another port of an allowed host", Harm.REACHED)
def test_another_port_of_an_allowed_host(lab: Lab, proxy: Proxy) -> None:
    closed = (403, "host.port")
    for port in (1, 22, 25, 53, 80, 442, 444, 3128, 8080, 8443, 65535):
        proxy.expects(by_tunnel(proxy, API, port), closed)
    for port in (80, 8443):
        proxy.expects(by_sni(proxy, API, port=port), closed)
    for port in (22, 443, 8080):
        proxy.expects(by_url(proxy, f"{PLAIN}:{port}"), (403, "host.cleartext"))
        proxy.expects(
            by_tunnel(proxy, PLAIN, port) if port != 443 else by_connect(proxy, PLAIN, port),
            (200, "") if port == 443 else closed,
        )
    proxy.expects(by_host(proxy, f"{PLAIN}:8080"), MISMATCH)
    proxy.expects(by_host(proxy, PLAIN, port=443), MISMATCH)
    proxy.expects(by_host(proxy, f"{PLAIN}:443", port=443), (403, "host.cleartext"))


@case("S-14", "ports that are none, or are written oddly", Harm.REACHED)
def test_ports_that_are_none_or_are_written_oddly(lab: Lab, proxy: Proxy) -> None:
    """Refused for the allowed host as for any other: what is no port has two readings."""
    odd = [
        *("", "0", "+443", "-443", "0443", "00443", "65536", "65979", "4294967739", "443.0", "0x1bb", "4_43"),
        *("443/", "443?", "443#", "443:443", "443@", " 443", "443 ", "https", "\u0664\u0664\u0663", "\xb2"),
    ]
    for port in odd:
        spelled = port.encode().decode("latin-1")
        for host in (API, EVIL):
            proxy.expects(by_connect(proxy, host, spelled), (400, "host.malformed"), MALFORMED)
    for port in ("0", "+80", "080", "65616", "80:80"):
        proxy.expects(by_url(proxy, f"{EVIL}:{port}"), (400, "host.malformed"), MALFORMED)
        proxy.expects(by_url(proxy, f"{PLAIN}:{port}"), (400, "host.malformed"), MALFORMED)


# Forms of a request -------------------------------------------------------------------------------


@case("S-24", "two Host fields", Harm.STOLEN)
def test_two_host_fields(lab: Lab, proxy: Proxy) -> None:
    """In every place where there is one; also when they agree, and when one hides behind a space."""
    proxy.expects(proxy.ask(EVIL, request(EVIL, "/echo", f"host: {API}")), MALFORMED)
    seconds = [
        *(f"host: {API}", f"Host: {EVIL}", f"HOST:{EVIL}", f"host : {EVIL}", f" host: {EVIL}", "host:"),
        *(f"x: y\nhost: {EVIL}", f"x: y\rhost: {EVIL}", f"\thost: {EVIL}", f"host\0: {EVIL}"),
    ]
    for line in seconds:
        proxy.expects(proxy.ask(API, request(API, "/echo", line)), MALFORMED)
        proxy.expects(proxy.say(request(PLAIN, f"http://{PLAIN}/echo", line)), MALFORMED)
        proxy.expects(by_connect(proxy, API, 443, line), MALFORMED)
        with proxy.dial((DOOR, 80)) as client:
            proxy.expects(client.send(request(PLAIN, "/echo", line)).response(), MALFORMED)
    nobody = b"GET /echo HTTP/1.1\r\nx: y\r\n\r\n"
    proxy.expects(proxy.ask(API, nobody), MALFORMED)
    with proxy.dial((DOOR, 80)) as client:
        proxy.expects(client.send(nobody).response(), MALFORMED)


@case("S-27", "requests that are for no proxy", Harm.LEAKED)
def test_requests_that_are_for_no_proxy(lab: Lab, proxy: Proxy) -> None:
    """On the proxy's port Host decides nothing, and nothing is told of the proxy itself."""
    form = (400, "proxy.form")
    for host in (PLAIN, API, EVIL, "127.0.0.1:3128", "localhost", "egress"):
        proxy.expects(proxy.say(request(host, "/echo")), form)
    proxy.expects(proxy.say(request(PLAIN, "*", method="OPTIONS")), form)
    proxy.expects(proxy.say(b"GET /echo HTTP/1.0\r\n\r\n"), form)
    proxy.expects(proxy.say(request(API, f"https://{API}/echo")), form)
    proxy.expects(proxy.say(request(PLAIN, "//plain.good.test/echo")), form)
    for scheme in ("ftp", "ws", "wss", "file", "unix", "http+unix", "gopher", "h2c", "httpx", "http:"):
        answer = proxy.say(request(PLAIN, f"{scheme}://{PLAIN}/echo"))
        proxy.expects(answer, form, MALFORMED, (400, "host.malformed"))
    udp = ("connection: upgrade", "upgrade: connect-udp", "capsule-protocol: ?1")
    proxy.expects(proxy.say(request("127.0.0.1:3128", "/.well-known/masque/udp/8.8.8.8/443/", *udp)), form)


@case("S-27", "other protocols on the proxy's port", Harm.REACHED)
def test_other_protocols_on_the_proxys_port(lab: Lab, proxy: Proxy) -> None:
    """SOCKS, TLS, HTTP/2 without asking, the PROXY protocol, and what is nothing at all."""
    evil = EVIL.encode()
    connect = request(API, f"{API}:443", method="CONNECT")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    for data in (
        b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(evil)]) + evil + b"\x01\xbb",
        b"\x05\x01\x00\x05\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50",
        b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00" + evil + b"\x00",
        b"\x04\x01\x00\x50\xa9\xfe\xa9\xfe\x00",
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1000 443\r\n" + connect,
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + connect,
        preface,
        real(API),
        b"\x80\x2e\x01\x00\x02",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\r\n" + connect,
        b" " + connect,
        connect.replace(b"CONNECT", b"connect"),
        connect.replace(b"HTTP/1.1", b"HTTP/2.0"),
        connect.replace(b"HTTP/1.1", b"HTTP/0.9"),
        connect.replace(b"\r\n", b"\n"),
        b"CONNECT evil.test:443\r\n\r\n",
    ):
        with proxy.dial() as line:
            answer = line.send(data).finish().response()
            assert proxy.name == "naive" or answer.status in (0, 400, 505), (data, answer)


@case("S-20", "what comes with a CONNECT, behind it, and inside of it", Harm.STOLEN)
def test_what_comes_with_a_connect(lab: Lab, proxy: Proxy) -> None:
    """A body, a second CONNECT, a request: nothing of it is a tunnel's first word."""
    connect = request(API, f"{API}:443", method="CONNECT")
    second = request(EVIL, f"{EVIL}:443", method="CONNECT")
    for length in ("content-length: 4", "content-length: 0", "transfer-encoding: chunked"):
        proxy.expects(by_connect(proxy, API, 443, length), MALFORMED)
    refused = request(EVIL, f"{EVIL}:443", method="CONNECT")
    for behind in (second, connect, request(PLAIN, f"http://{PLAIN}/behind"), request(API), b"\r\n" + second):
        for first in (connect, refused):
            with proxy.dial() as line:
                line.send(first + behind).finish()
                words = line.everything()
                # Clear text in the tunnel of a denied host is answered with the reason alone.
                answers = words.count(b"HTTP/1.1 ") - words.count(b"HTTP/1.1 403 Egress host.unknown (")
                assert proxy.name == "naive" or answers == 1, words
    for inner in (request(f"{OTHER}:443", f"{OTHER}:443", method="CONNECT"), second, connect):
        proxy.expects(proxy.ask(API, inner), MISMATCH, MALFORMED, (403, "method.refused"))
    if proxy.name == "egress" and (lab.sent(proxy, lab.api) or lab.sent(proxy, lab.internet.plain)):
        raise Finding(Harm.SENT, "something behind a CONNECT was served")


@case(
    "S-20",
    "a greeting that comes with its CONNECT",
    naive="it takes it as well: this is the good twin of what must not come there",
    twin="test_what_comes_with_a_connect",
)
def test_a_greeting_that_comes_with_its_connect(lab: Lab, proxy: Proxy) -> None:
    with proxy.dial() as line:
        back = line.send(request(API, f"{API}:443", method="CONNECT") + real(API)).finish().everything()
    assert back.startswith(b"HTTP/1.1 200 Connection established\r\n\r\n\x16\x03\x03"), back[:80]
    assert not list(let_out(lab, proxy))


@case("S-01", "another host on a connection that was good once", Harm.SENT)
def test_another_host_on_a_connection_that_was_good_once(lab: Lab, proxy: Proxy) -> None:
    """A second request is decided on its own, or there is no second one."""
    # Clear text is kept alive, so what may not be asked for there is refused by the proxy itself.
    ends = (NO_WORDS, MISMATCH, UNKNOWN, (403, "host.port"), (403, "host.cleartext"), (400, "proxy.form"))
    # Behind an accepted CONNECT nothing is but the page of the denial.
    page = (200, "")
    first = request(PLAIN, f"http://{PLAIN}/echo?first")
    for second, also in (
        (request(EVIL, f"http://{EVIL}/echo?second"), UNKNOWN),
        (request(EVIL, "/echo?second"), UNKNOWN),
        (request(API, f"http://{API}/echo?second"), UNKNOWN),
        (request(f"{PLAIN}:8080", f"http://{PLAIN}:8080/echo?second"), UNKNOWN),
        (request(EVIL, f"{EVIL}:443", method="CONNECT"), page),
        (request(EVIL, f"{EVIL}:22", method="CONNECT"), UNKNOWN),
    ):
        for apart in (True, False):
            with proxy.dial() as line:
                line.send(first if apart else first + second)
                assert line.response().status == 200
                if apart:
                    line.send(second)
                proxy.expects(line.response(), *ends, also)
        with proxy.connect(f"{PLAIN}:80") as line:
            assert line.send(request(PLAIN)).response().status == 200
            proxy.expects(line.send(second).response(), NO_WORDS, MISMATCH, MALFORMED)
        with proxy.tunnel(OTHER) as line:
            assert line.send(request(OTHER)).response().status == 200
            proxy.expects(line.send(second).response(), NO_WORDS, MISMATCH, MALFORMED)
    for site in (lab.internet.plain, lab.other):
        if strays := [each for each in lab.sent(proxy, site) if EVIL in "".join(each.headers("host"))]:
            raise Finding(Harm.SENT, f"{strays[0].start} for another host")


# What is agreed on --------------------------------------------------------------------------------


@case("S-20", "a protocol that is none of HTTP, in TLS", Harm.SENT)
def test_a_protocol_that_is_none_of_http_in_tls(lab: Lab, proxy: Proxy) -> None:
    """By its name in the greeting, and by its first words: neither gets a byte through to a host."""
    for offer in (("ssh",), ("acme-tls/1",), ("postgresql",), ("h3",), ("h2c",), ("spdy/3",), ("HTTP/1.1",)):
        with proxy.tunnel(OTHER, alpn=offer) as line:
            if proxy.name == "egress":
                assert line.failure, offer
            line.send(b"SSH-2.0-x\r\n\r\nplans").finish()
            line.everything()
    for words in (
        b"SSH-2.0-x\r\n\r\nplans",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f plans\n\n",
        real(EVIL) + b"plans\n\n",
        b"EHLO plans\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nplans",
        b"\n\nplans\n\n",
    ):
        with proxy.tunnel(OTHER) as line:
            line.send(words).finish()
            line.everything()
    if lab.wait(proxy, lambda: b"plans" in lab.heard(proxy, OTHER)):
        raise Finding(Harm.SENT, "what is not HTTP was passed on")


def test_the_protocols_that_are_http_are_agreed_on(lab: Lab, egress: Egress) -> None:
    """The good twin: also none at all, and one among others that nobody knows."""
    lab.begin(egress)
    offers = (
        (),
        ("http/1.1",),
        ("http/1.0",),
        ("x", "http/1.1"),
        ("h2", "http/1.1"),
        ("\x0a\x0a", "http/1.1"),
    )
    for offer in offers:
        with egress.tunnel(OTHER, alpn=offer) as line:
            assert line.failure == ""
            assert line.alpn in (None, *offer)
            assert line.send(request(OTHER)).response().status == 200
    must_be_none(lab.harms(egress))


@pytest.mark.parametrize(
    ("data", "alert"),
    [
        (real(API, ["ssh"]), 120),
        (hello(server_name(API.encode()), protocols(b"http/1.1"), versions(0x0302)), 70),
    ],
    ids=["no protocol in common", "an old version"],
)
def test_a_handshake_that_fails_ends_with_an_alert(lab: Lab, egress: Egress, data: bytes, alert: int) -> None:
    """What docs/reference/denials.md promises: a client of TLS gets an alert where it can read no page."""
    with egress.connect(f"{API}:443") as line:
        assert line.send(data).everything() == bytes((21, 3, 3, 0, 2, 2, alert))
