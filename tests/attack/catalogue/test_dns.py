"""Names as a way out: what the name server of a sandbox is asked stays where it is; classes 17 and 28.

S-46 (another name server, through the proxy) and S-47 (data in names). What is looked at is the name server
of the machine: no question of a sandbox may get there, allowed or not.
"""

from __future__ import annotations

import base64
import secrets

import pytest

from tests.attack.catalogue.proxy_entries import (
    REASONS,
    asking,
    by_connect,
    by_host,
    by_name,
    by_sni,
    by_tunnel,
    by_url,
    expects_denied_name,
    expects_name,
    let_out,
    put_question,
)
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ANY, API, DOOR, EVIL, NAME_SERVER, OTHER, PLAIN
from tests.attack.lab.proxies import Egress, Proxy
from tests.unit.proxy.dns_messages import (
    AAAA,
    FORMERR,
    HTTPS,
    MX,
    NOERROR,
    NOTIMP,
    NS,
    NXDOMAIN,
    OPT,
    PTR,
    REFUSED,
    SVCB,
    TXT,
    A,
    edns,
    query,
    told,
    wire_name,
)
from tests.unit.proxy.dns_messages import (
    ANY as EVERY_KIND,
)

pytestmark = pytest.mark.system("ip", "iproute2")

NULL, CNAME, SOA, SRV, AXFR, IXFR = 10, 5, 6, 33, 252, 251
KINDS = (A, NS, CNAME, SOA, NULL, PTR, MX, TXT, AAAA, SRV, SVCB, HTTPS, EVERY_KIND, 65399)


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


def data_in_a_name(suffix: str) -> str:
    """As much as fits: a tunnel in names is a row of these."""
    labels = [base64.b32encode(secrets.token_bytes(35)).decode().lower().rstrip("=") for _ in range(3)]
    return ".".join([*labels, suffix])


def is_asked(lab: Lab, proxy: Proxy) -> bool:
    """Whether any question has reached the name server of the machine."""
    return bool(lab.wait(proxy, lambda: lab.questions(proxy)))


# S-47: data in names ------------------------------------------------------------------------------


@case("S-47", "names full of data", Harm.ASKED)
def test_names_full_of_data(lab: Lab, proxy: Proxy) -> None:
    """Of every kind, and by every other way that has a name in it."""
    for kind in KINDS:
        full = data_in_a_name(EVIL)
        expects_denied_name(proxy, by_name(proxy, full, kind), full, kind)
    name = data_in_a_name(f"t.{EVIL}")
    unknown = (403, "host.unknown")
    proxy.expects(by_tunnel(proxy, name), unknown)
    proxy.expects(by_connect(proxy, name, 53), unknown)
    proxy.expects(by_url(proxy, name), unknown)
    proxy.expects(by_host(proxy, name), unknown)
    proxy.expects(by_sni(proxy, name), unknown)
    proxy.expects(proxy.ask(API, request(name)), (421, "request.mismatch"))
    proxy.expects(by_connect(proxy, API, 443, f"x-forwarded-host: {name}"), (200, ""))


@case("S-47", "data in names that are allowed, and below them", Harm.ASKED)
def test_data_in_names_that_are_allowed(lab: Lab, proxy: Proxy) -> None:
    """Answered here: the address is the door's, and nobody else hears of the name."""
    for _ in range(10):
        name = f"{secrets.token_hex(30)}.{ANY}"
        expects_name(proxy, by_name(proxy, name), NOERROR, DOOR)
        expects_name(proxy, by_name(proxy, name, TXT), NOERROR)
        for name in (f"{secrets.token_hex(20)}.{API}", f"x.{secrets.token_hex(20)}.{ANY}"):
            expects_denied_name(proxy, by_name(proxy, name), name)
    expects_name(proxy, by_name(proxy, API), NOERROR, DOOR)
    if is_asked(lab, proxy):
        raise Finding(Harm.ASKED, str(lab.questions(proxy)[0]))


@case("S-47", "kinds of records that lead past the proxy", Harm.ASKED)
def test_kinds_of_records_that_lead_past_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """An allowed name has one address and no other record: none of QUIC, of hidden greetings, of mail."""
    for kind in KINDS:
        for name in (API, OTHER, PLAIN, f"x.{ANY}"):
            expects_name(proxy, by_name(proxy, name, kind), NOERROR, *([DOOR] if kind == A else []))
    for name in (
        f"_443._tcp.{API}",
        f"_https.{API}",
        "_dns.resolver.arpa",
        "use-application-dns.net",
        "wpad",
    ):
        expects_name(proxy, by_name(proxy, name, HTTPS), NXDOMAIN)
        expects_name(proxy, by_name(proxy, name), NXDOMAIN)
    if is_asked(lab, proxy):
        raise Finding(Harm.ASKED, str(lab.questions(proxy)[0]))


@case("S-47", "names that rules close", Harm.ASKED)
def test_names_that_rules_close(lab: Lab, proxy: Proxy) -> None:
    """By UDP and TCP, and in every spelling: closed, expired, not in the profile, denied, unknown."""
    for name in REASONS:
        for spelled in (name, name.upper()):
            for tcp in (False, True):
                reply = put_question(proxy, query(spelled), tcp=tcp)
                if tcp:
                    reply = reply[2:]
                expects_denied_name(proxy, reply, name)


# S-46: another name server ------------------------------------------------------------------------


@case("S-46", "another name server, through the proxy", Harm.REACHED)
def test_another_name_server_through_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """By address and by name, on its own port, over TLS and over HTTPS."""
    literal, closed = (403, "host.literal"), (403, "host.port")
    question = query(data_in_a_name(EVIL))
    framed = len(question).to_bytes(2) + question
    for server in (
        "8.8.8.8",
        "1.1.1.1",
        "9.9.9.9",
        NAME_SERVER,
        "[2606:4700:4700::1111]",
        "127.0.0.53",
        DOOR,
    ):
        if proxy.name == "naive" and server == DOOR:
            continue
        for port in (53, 443, 853, 5353):
            with proxy.connect(f"{server}:{port}") as line:
                proxy.expects(line.answer, literal)
                if line.answer.status == 200:
                    line.send(framed).finish()
        proxy.expects(by_url(proxy, server, "/dns-query?dns=AAABAAABAAAAAAAA"), literal)
    name = f"ns.{ANY}"
    lab.dns.set(name, NAME_SERVER)
    with proxy.connect(f"{name}:53") as line:
        proxy.expects(line.answer, closed)
    with proxy.connect(f"{name}:853") as line:
        proxy.expects(line.answer, closed)
    for host in ("dns.google", "cloudflare-dns.com", "doh.test"):
        proxy.expects(by_tunnel(proxy, host), (403, "host.unknown"))
    # In a tunnel to somebody who is allowed, a question is no request.
    with proxy.connect(f"{OTHER}:443") as line:
        line.send(framed).finish().everything()


ODD = {
    "an update": (query(API, flags=0x2800), NOTIMP),
    "a notification": (query(API, flags=0x2000), NOTIMP),
    "a status": (query(API, flags=0x1000), NOTIMP),
    "an unknown opcode": (query(API, flags=0x7800), NOTIMP),
    "a class of its own": (query("version.bind", TXT, space=3), REFUSED),
    "any class": (query(API, space=255), REFUSED),
    "a transfer": (query("good.test", AXFR), REFUSED),
    "a part of one": (query("good.test", IXFR), REFUSED),
    "the root": (query(b"\0"), REFUSED),
    "two questions": (
        query(API, counts=(2, 0, 0, 0), more=wire_name(b"evil", b"test") + b"\0\1\0\1"),
        FORMERR,
    ),
    "no question": (query(API, counts=(0, 0, 0, 0)), FORMERR),
    "an answer in a question": (
        query(API, counts=(1, 1, 0, 0), more=b"\xc0\x0c\0\1\0\1" + bytes(10)),
        FORMERR,
    ),
    "a pointer to itself": (query(b"\xc0\x0c"), FORMERR),
    "a pointer behind the end": (query(b"\xc0\xff"), FORMERR),
    "a pointer at the end": (query(b"\3api\4good\xc0\x0c"), FORMERR),
    "a label too long": (query(b"\x40" + b"a" * 64 + b"\0"), FORMERR),
    "a name too long": (query(b"\x3f" + b"a" * 63 + (b"\x3f" + b"b" * 63) * 3 + b"\0"), FORMERR),
    "a name without an end": (query(b"\3api\4good\4test"), FORMERR),
    "bytes behind it": (query(API, more=b"x" * 40), FORMERR),
    "two OPT records": (query(API, counts=(1, 0, 0, 2), more=OPT + OPT), FORMERR),
    "another version of EDNS": (edns(API, record=OPT.replace(b"\x10\0\0\0\0\0", b"\x10\0\0\1\0\0")), 16),
    "the reply bit off, and truncated": (query(API, flags=0x0300), FORMERR),
    "more than a datagram holds": (query(API, more=bytes(1300)), FORMERR),
}


@case("S-46", "what is no plain question", Harm.ASKED)
def test_what_is_no_plain_question(lab: Lab, proxy: Proxy) -> None:
    """Answered with an error, shorter than the question, and passed on to nobody."""
    proxy_is_ours = proxy.name == "egress"
    for what, (data, code) in ODD.items():
        # Not everything is answered by the lab's own server, which the naive proxy asks.
        if proxy_is_ours:
            reply = put_question(proxy, data)
            found = told(reply)
            assert (found.rcode, found.addresses) == (code, ()), (what, found)
            assert len(reply) <= len(data)
    for data, _ in (ODD["an update"], ODD["a class of its own"], ODD["any class"], ODD["a transfer"]):
        put_question(proxy, data)
    if is_asked(lab, proxy):
        raise Finding(Harm.ASKED, str(lab.questions(proxy)[0]))


@case("S-46", "the names of the machine and its network", Harm.ASKED)
def test_the_names_of_the_machine_and_its_network(lab: Lab, proxy: Proxy) -> None:
    """Which machines there are, and what they are called, is no business of a sandbox's.

    A name of the network is answered like one that nobody has.
    """
    lab.dns.set("db.corp.test", "10.1.1.1")
    reverse = ".".join(reversed(proxy.room.four.split("."))) + ".in-addr.arpa"
    six = "1.0.0.0.8.4.f.4.0.1.a.2.ip6.arpa"
    names = (
        reverse,
        six,
        "1.0.0.127.in-addr.arpa",
        "localhost",
        "db.corp.test",
        "db",
        "host.docker.internal",
    )
    for name in (
        *names,
        "metadata.google.internal",
        "instance-data",
        "kubernetes.default.svc.cluster.local",
        "_dns-sd._udp",
    ):
        for kind in (A, PTR, SRV):
            expects_denied_name(proxy, by_name(proxy, name, kind), name, kind)
    for number in ("127.0.0.1", "2130706433", "0x7f.1", "169.254.169.254", "10"):
        expects_name(proxy, by_name(proxy, number), NXDOMAIN)
    if proxy.name == "egress":
        assert not list(let_out(lab, proxy))


@case("S-46", "datagrams that are no questions, and many that are", Harm.ASKED)
def test_datagrams_that_are_no_questions(lab: Lab, proxy: Proxy) -> None:
    """Silence for what is no question at all; whatever comes next is answered."""
    junk = (b"", b"\0", bytes(11), query(API, flags=0x8180), b"\xff" * 12)
    many = [query(data_in_a_name(EVIL), number=number) for number in range(100)]
    with asking(proxy) as sock:
        # The other one passes junk on as well, and waits for what nobody answers.
        for data in (*(junk if proxy.name == "egress" else ()), *many):
            sock.send(data)
        numbers = {sock.recv(65535)[:2] for _ in many}
    assert numbers == {data[:2] for data in many}
    expects_name(proxy, by_name(proxy, API), NOERROR, DOOR)
    expects_name(proxy, put_question(proxy, query(API), tcp=True)[2:], NOERROR, DOOR)
