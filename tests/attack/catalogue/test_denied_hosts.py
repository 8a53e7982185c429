"""What is said inside of a connection to a denied host, which the proxy accepts to say why; class 11.

Whatever it is, the page of the denial is the only answer: nobody is asked, dialled or given a secret, and
nothing of the connection becomes one to somebody else.
"""

from __future__ import annotations

import functools
import secrets
import time

import pytest

from tests.attack.catalogue.proxy_entries import REASONS, by_tunnel, let_out
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, Line, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, DOOR, EVIL, OTHER, STANDIN
from tests.attack.lab.proxies import Egress, Proxy
from tests.proxy.serve_process import until
from tests.unit.proxy.hellos import real

pytestmark = pytest.mark.system("ip", "iproute2")

UNKNOWN = (403, "host.unknown")
MALFORMED = (400, "request.malformed")


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


def entered(proxy: Proxy, how: str, host: str = EVIL, alpn: tuple[str, ...] = ("http/1.1",)) -> Line:
    """TLS with the denied host, by a tunnel or as if there were no proxy."""
    if how == "connect":
        return proxy.tunnel(host, alpn=alpn, verify=False)
    line = proxy.dial((DOOR, 443))
    line.to_tls(proxy.ca_pem, host, alpn, verify=False)
    return line


def nothing_left(lab: Lab, proxy: Proxy) -> None:
    """Raise what was dialled or asked for: no host is open here."""
    if lab.wait(proxy, lambda: list(let_out(lab, proxy))):
        raise Finding(Harm.REACHED, "something left the proxy for a host that is denied")


ODD = {
    "a post": request(EVIL, method="POST", body=b"x" * 1000),
    "another host": request(API),
    "another host by its whole URL": request(API, f"https://{API}/echo"),
    "a tunnel": request(f"{API}:443", f"{API}:443", method="CONNECT"),
    "a WebSocket": request(
        EVIL,
        "/ws",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
    "HTTP/2 in clear": request(EVIL, "/", "upgrade: h2c", "connection: upgrade, http2-settings"),
    "a method of no server": request(EVIL, method="TRACE"),
    "a path of two readings": request(EVIL, "/a/%2e%2e/b"),
    "a body to be asked for": request(EVIL, "/", "expect: 100-continue", method="PUT", body=b"x" * 100),
}
BROKEN = {
    "two hosts": request(EVIL, "/", f"host: {API}"),
    "two lengths": request(EVIL, "/", "content-length: 5", method="POST", body=b"hello"),
    "two framings": request(EVIL, "/", "transfer-encoding: chunked", method="POST", body=b"0\r\n\r\n"),
    "no HTTP": b"\0\1\2\3\r\n\r\n",
    "TLS in TLS": real(API),
    "a head without end": b"GET / HTTP/1.1\r\nhost: evil.test\r\nx: " + b"y" * 100_000,
}


@case("S-01 S-10 S-20", "what is said inside of a connection to a denied host", Harm.REACHED)
def test_what_is_said_inside_of_a_connection_to_a_denied_host(lab: Lab, proxy: Proxy) -> None:
    for how in ("connect", "sni"):
        for data in ODD.values():
            with entered(proxy, how) as line:
                method = data.split(b" ", 1)[0].decode()
                proxy.expects(line.send(data).response(method), UNKNOWN)
        for data in BROKEN.values():
            with entered(proxy, how) as line:
                answer = line.send(data).finish().response()
                proxy.expects(
                    answer, MALFORMED, (431, "request.malformed"), (414, "request.malformed"), (0, "")
                )
    nothing_left(lab, proxy)


@case("S-10 S-23", "a request behind the one that is denied", Harm.REACHED)
def test_a_request_behind_the_one_that_is_denied(lab: Lab, proxy: Proxy) -> None:
    """It is denied like the first, in whatever name it is asked, whether it was sent along or afterwards."""
    behind = request(API, "/behind")
    for first in (
        request(EVIL),
        request(EVIL, method="POST", body=b"x" * 10),
        request(EVIL, "/", "transfer-encoding: chunked", method="POST") + b"5\r\nhello\r\n0\r\n\r\n",
        request(EVIL, "/", "content-length: 3", method="POST") + b"abc",
    ):
        for how in ("connect", "sni"):
            with entered(proxy, how) as line:
                proxy.expects(line.send(first + behind).response(), UNKNOWN)
                if proxy.name == "egress":
                    for _ in ("sent along", "sent afterwards"):
                        # Behind a body that was not read there is only the end.
                        proxy.expects(line.send(behind).response(), UNKNOWN, (0, ""))
    nothing_left(lab, proxy)


@case("S-10", "other authorities on an HTTP/2 connection to a denied host", Harm.REACHED)
def test_other_authorities_on_an_http2_connection_to_a_denied_host(lab: Lab, proxy: Proxy) -> None:
    for how in ("connect", "sni"):
        with entered(proxy, how, alpn=("h2",)) as line:
            speaker = Http2(line)
            for authority in (EVIL, API, OTHER, f"{API}:443", f"{EVIL}:8443"):
                stream = speaker.ask(authority)
                if proxy.name == "egress":
                    assert (stream.status, stream.header("egress-denied")) == UNKNOWN, authority
    nothing_left(lab, proxy)


@case("S-05 S-37", "a stand-in, and a secret's host, at a denied host", Harm.STOLEN)
def test_a_stand_in_at_a_denied_host(lab: Lab, proxy: Proxy) -> None:
    """No secret is fetched for such a request, and no stand-in is swapped in it."""
    stand_in = proxy.stand_in()
    for line in (
        f"x-api-key: {stand_in}",
        f"authorization: Bearer {stand_in}",
        f"cookie: session={stand_in}",
    ):
        for named in (EVIL, STANDIN, API):
            for how in ("connect", "sni"):
                with entered(proxy, how) as inside:
                    proxy.expects(inside.send(request(named, "/echo", line)).response(), UNKNOWN)
    if proxy.name == "egress":
        nothing_left(lab, proxy)


@case("S-01", "the certificate that is shown for a denied host", Harm.REACHED)
def test_the_certificate_that_is_shown_for_a_denied_host(lab: Lab, proxy: Proxy) -> None:
    """A client that verifies reads the page, one that asks for another name than its tunnel gets nothing."""
    for name, code in REASONS.items():
        proxy.expects(proxy.ask(name, request(name)), (403, code))
    for sni in (API, OTHER, f"x.{EVIL}"):
        answer = proxy.ask(EVIL, request(EVIL), sni=sni, verify=False)
        proxy.expects(answer, (0, ""))
    with proxy.connect(f"{EVIL}:443") as line:
        if proxy.name == "egress":
            assert not line.to_tls(lab.certs.ca_pem, EVIL), "the authority of the sandbox signs it"
            assert "verify" in line.failure.lower(), line.failure
    nothing_left(lab, proxy)


@case(
    "S-70",
    "one line for each denial",
    naive="it keeps no record that could be wrong",
    twin="test_what_is_said_inside_of_a_connection_to_a_denied_host",
)
def test_one_line_for_each_denial(lab: Lab, proxy: Proxy) -> None:
    """With the name, the reason and the id that the client was told, whether it spoke or left."""
    assert isinstance(proxy, Egress)

    def lines(name: str) -> list[dict[str, object]]:
        return [each for each in proxy.records() if each.get("host") == name and each.get("entry") != "dns"]

    def is_calm() -> bool:
        """Whether a denial has a line of its own again: many in a second are counted."""
        name = f"calm-{secrets.token_hex(4)}.{EVIL}"
        by_tunnel(proxy, name)
        # For more than a second: a denial that has no line by then was counted, and another second has begun.
        end = time.monotonic() + 1.2
        while not lines(name) and time.monotonic() < end:
            time.sleep(0.05)
        return bool(lines(name))

    until(is_calm)
    told: Answer = by_tunnel(proxy, f"spoke.{EVIL}")
    with proxy.connect(f"left.{EVIL}:443"):
        pass
    with entered(proxy, "connect", f"silent.{EVIL}"):
        pass
    for name, event in (("spoke", "exchange"), ("left", "refusal"), ("silent", "refusal")):
        found = until(functools.partial(lines, f"{name}.{EVIL}"), f"the line of {name}")
        assert [(each["event"], each["verdict"], each["code"]) for each in found] == [
            (event, "deny", "host.unknown")
        ], found
    assert lines(f"spoke.{EVIL}")[0]["request"] == told.header("egress-request")
