"""Hosts that do not prove who they are get nothing; sessions prove nothing elsewhere; classes 18 and 20.

S-21 and S-22: certificates that are wrong in time, in name, in who signed them; hosts that speak no TLS, or
one that proves nothing; a host that was good once. Whoever gets a secret here is called a liar.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable
from functools import cache

import pytest

from tests.attack.catalogue.proxy_entries import by_sni
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.http2 import Http2
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ANY, API, CERTIFICATES_GONE_WRONG, FRONT, OTHER
from tests.attack.lab.proxies import Egress, Proxy
from tests.attack.lab.websocket import ask_for_websocket
from tests.proxy.lab.certificates import Certificates, trusting
from tests.proxy.lab.raw_upstream import Close, Cut, Reset, Say, Step

pytestmark = pytest.mark.system("ip", "iproute2")

UNPROVEN = (502, "upstream.tls")
LIARS = "45.20.0"
AT_LIARS = tuple((f"{LIARS}.{number}", 443) for number in range(1, 60))


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


def old(certs: Certificates, name: str) -> ssl.SSLContext:
    """A server that has not learnt anything since 2006."""
    context = certs.good(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def with_ciphers(certs: Certificates, name: str, ciphers: str) -> ssl.SSLContext:
    """A server that speaks TLS 1.2 with these alone."""
    context = certs.good(name)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    return context


def stem(name: str) -> str:
    """The name without its first label."""
    return name.partition(".")[2]


def in_the_subject(certs: Certificates, name: str) -> ssl.SSLContext:
    """As certificates were before 2000: the name stands where nobody looks any more."""
    context = certs.wrong_name()
    certs._ca.issue_cert("somebody-else.test", common_name=name).configure_cert(context)
    return context


WRONG: dict[str, Callable[[Certificates, str], ssl.SSLContext]] = {
    "expired": lambda certs, name: certs.expired(name),
    "not valid yet": lambda certs, name: certs.not_yet_valid(name),
    "another name": lambda certs, _: certs.wrong_name(),
    "a name that begins like it": lambda certs, name: certs.good(f"{name}.evil.test"),
    "a name that ends like it": lambda certs, name: certs.good(f"x{name}"),
    "a name below it": lambda certs, name: certs.good(f"x.{name}"),
    "a wildcard below it": lambda certs, name: certs.good(f"*.{name}"),
    "the name above it": lambda certs, name: certs.good(stem(name)),
    "a wildcard of another level": lambda certs, name: certs.good(f"*.{stem(stem(name))}", "*.test"),
    "its address": lambda certs, _: certs.good(*(address for address, _ in AT_LIARS)),
    "a mailbox at it": lambda certs, name: certs.good(f"me@{name}"),
    "it in the subject alone": in_the_subject,
    "an unknown authority": lambda certs, name: certs.unknown_ca(name),
    "an authority with the same name": lambda _, name: Certificates().good(name),
    "its own signature": lambda certs, name: certs.self_signed(name),
    "an old TLS": old,
    "nobody, anonymously": lambda certs, name: with_ciphers(certs, name, "aNULL"),
    "no encryption": lambda certs, name: with_ciphers(certs, name, "eNULL"),
    "old hashes": lambda certs, name: with_ciphers(
        certs, name, "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA"
    ),
}
"""What is wrong, and a server that does it to a name."""

SAYS: dict[str, tuple[Step, ...]] = {
    "an answer in clear text": (Say(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),),
    "an answer at once, and goes": (Say(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), Close()),
    "a greeting of SSH": (Say(b"SSH-2.0-OpenSSH_9.2\r\n"), Close()),
    "an alert": (Say(b"\x15\x03\x03\x00\x02\x02\x28"), Close()),
    "a warning, and no more": (Say(b"\x15\x03\x03\x00\x02\x01\x00"), Close()),
    "half a record": (Say(b"\x16\x03\x03\x40\x00\x02\x00"), Close()),
    "a record too long": (Say(b"\x16\x03\x03\xff\xff" + bytes(4000)), Close()),
    "a greeting of a client": (Say(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"), Close()),
    "nothing, and goes": (Close(),),
    "nothing, and is gone": (Reset(),),
    "nothing, and is cut": (Cut(),),
}


@cache
def liars(lab: Lab) -> dict[str, str]:
    """What is wrong with a host, and its name; each lives at an address of its own."""
    found: dict[str, str] = {}
    for number, wrong in enumerate((*WRONG, *SAYS), 1):
        name = f"liar-{number}.{ANY}"
        context = WRONG[wrong](lab.certs, name) if wrong in WRONG else None
        site = lab.internet.move_in(f"a liar with {wrong}", f"{LIARS}.{number}", context)
        if wrong in SAYS:
            site.greet(*SAYS[wrong])
        lab.dns.set(name, f"{LIARS}.{number}")
        found[wrong] = name
    return found


@case("S-21 S-22", "hosts that are wrong in every way there is", Harm.STOLEN, also=AT_LIARS)
def test_hosts_that_are_wrong_in_every_way_there_is(lab: Lab, proxy: Proxy) -> None:
    """Each is dialled, and none is told anything; what it says is not what the sandbox reads."""
    for wrong, name in liars(lab).items():
        answer = proxy.ask(name, request(name, "/echo", method="POST", body=b"plans"))
        if isinstance(proxy, Egress):
            # Who goes before a word is said may be gone before one is waited for.
            gone = [(502, "upstream.unreachable")] if wrong.startswith("nothing") else []
            assert (answer.status, answer.code) in (UNPROVEN, *gone), (wrong, answer)
    tried = {each.target for each in lab.opened(proxy) if each.target[0].startswith(f"{LIARS}.")}
    assert proxy.name == "naive" or len(tried) == len(liars(lab))
    names = [each for each in lab.internet.connections() if each.name.startswith("a liar")]
    ours = [each for each in names if each.peer[0] in (proxy.room.four, proxy.room.six)]
    if any(b"plans" in each.data for each in ours):
        raise Finding(Harm.STOLEN, "a liar got the body of a request")


@case("S-21 S-22", "hosts that cannot prove who they are, by every way in", Harm.SENT)
def test_hosts_that_cannot_prove_who_they_are_by_every_way_in(lab: Lab, proxy: Proxy) -> None:
    """In HTTP/2, for a WebSocket, without a name in the greeting, and for those who know no proxy."""
    for name in CERTIFICATES_GONE_WRONG:
        proxy.expects(by_sni(proxy, name), UNPROVEN)
        proxy.expects(proxy.ask(name, request(name), sni=None, verify=False), UNPROVEN)
        with proxy.tunnel(name, alpn=("h2",)) as line:
            stream = Http2(line).ask(name)
            assert proxy.name == "naive" or (stream.status, stream.header("egress-denied")) == UNPROVEN
        with proxy.tunnel(name) as line:
            ask_for_websocket(line, name, "/ws")
        with proxy.tunnel(name) as line:
            # On one connection: a refusal is no proof for the next request.
            for _ in range(3):
                answer = line.send(request(name)).response()
                proxy.expects(answer, UNPROVEN, (0, ""))
        if lab.sent(proxy, lab.site(name)):
            raise Finding(Harm.SENT, f"{name} got a request")


@case("S-22", "a host that was good once", Harm.STOLEN, also=(("45.20.1.1", 443), ("45.20.1.2", 443)))
def test_a_host_that_was_good_once(lab: Lab, proxy: Proxy) -> None:
    """The same address, and somebody else behind it: neither the proof nor its session is worth anything."""
    name = f"once-{proxy.name}.{ANY}"
    address = "45.20.1.1" if proxy.name == "egress" else "45.20.1.2"
    site = lab.internet.move_in(f"*.{ANY}", address, lab.certs.good(name))
    lab.dns.set(name, address)
    for _ in range(2):
        proxy.expects(proxy.ask(name, request(name)), (200, ""))
    good = len(lab.requests(proxy, site))
    assert good == 2
    if proxy.name == "egress":
        assert [link.sni for link in site.established] == [name, name]
    for wrong in (lab.certs.unknown_ca(name), lab.certs.expired(name), lab.certs.good(f"x.{name}")):
        wrong.sni_callback = site._note_sni
        site._tls, site.name = wrong, "a liar since then"
        proxy.expects(proxy.ask(name, request(name)), UNPROVEN)
    site._tls, site.name = lab.certs.good(name), f"*.{ANY}"
    site._tls.sni_callback = site._note_sni
    assert proxy.name == "naive" or len(lab.requests(proxy, site)) == good
    proxy.expects(proxy.ask(name, request(name)), (200, ""))


@case("S-22", "the name that has to be proven", Harm.STOLEN, also=(("45.20.1.3", 443), ("45.20.1.4", 443)))
def test_the_name_that_has_to_be_proven(lab: Lab, proxy: Proxy) -> None:
    """It is that of the tunnel, and a host with a good certificate for what the client says is a liar."""
    address = "45.20.1.3" if proxy.name == "egress" else "45.20.1.4"
    lab.internet.move_in("a liar with a name of its own", address, lab.certs.good(OTHER, "evil.test", API))
    name = f"proven-{proxy.name}.{ANY}"
    lab.dns.set(name, address)
    for host in (name, OTHER, API, "evil.test"):
        proxy.expects(proxy.ask(name, request(host), verify=False), UNPROVEN, (421, "request.mismatch"))
    for sni in (OTHER, API, "evil.test"):
        proxy.expects(proxy.ask(name, request(name), sni=sni, verify=False), (0, ""))


# Sessions with the sandbox ------------------------------------------------------------------------


@case(
    "S-22",
    "a session of one host that is taken up at another",
    naive="it takes up none at all",
    twin="test_a_session_is_taken_up_at_its_own_host",
)
def test_a_session_of_one_host_that_is_taken_up_at_another(lab: Lab, proxy: Proxy) -> None:
    """In every direction: there the handshake is a whole one, and the certificate is that of the host."""
    hosts = (API, OTHER, FRONT, f"session.{ANY}")
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        for first in hosts:
            context = trusting(proxy.ca_pem, ("http/1.1",))
            context.check_hostname = False
            context.maximum_version = newest
            session = _session(proxy, context, first)
            for second in hosts:
                with proxy.connect(f"{second}:443") as line:
                    assert line.to_tls(proxy.ca_pem, second, context=context, session=session), line.failure
                    assert line.is_resumed == (first == second), (first, second)
                    shown = line.certificate
                    assert shown is not None
                    if not line.is_resumed:
                        assert second.encode() in shown
                    proxy.expects(line.send(request(first)).response(), *_fits(first, second))
                # A greeting with the session of the tunnel's host, and the name of another.
                with proxy.connect(f"{second}:443") as line:
                    went = line.to_tls(proxy.ca_pem, first, context=context, session=session)
                    assert went == (first == second)


def _fits(first: str, second: str) -> tuple[tuple[int, str], ...]:
    return ((200, ""),) if first == second else ((421, "request.mismatch"),)


def _session(proxy: Proxy, context: ssl.SSLContext, host: str) -> ssl.SSLSession:
    """A session of a connection that was used."""
    with proxy.tunnel(host, context=context) as line:
        assert line.send(request(host)).response().status == 200
        session = line.session
    assert session is not None
    return session


def test_a_session_is_taken_up_at_its_own_host(lab: Lab, egress: Egress) -> None:
    """The good twin: there is something to be taken up, and this client would see it."""
    lab.begin(egress)
    context = trusting(egress.ca_pem, ("http/1.1",))
    session = _session(egress, context, OTHER)
    with egress.connect(f"{OTHER}:443") as line:
        assert line.to_tls(egress.ca_pem, OTHER, context=context, session=session)
        assert line.is_resumed
    must_be_none(lab.harms(egress))
