"""Addresses that nobody in a sandbox may reach, as they are, resolved to, or redirected to; classes 14 to 17.

S-18, S-19, S-79: metadata services, private and loopback addresses, the machine's own, in every spelling and
packing; names that change their mind, that are other names, that have hundreds of addresses, or none.
"""

from __future__ import annotations

import threading
from ipaddress import IPv4Address, IPv6Address
from itertools import count

import pytest

from tests.attack.catalogue.proxy_entries import (
    BELOW_CLEAR,
    BELOW_UNREAD,
    DEAD,
    DEAD_PORT,
    OWN_NETWORK,
    by_connect,
    by_host,
    by_name,
    by_url,
    expects_name,
    let_out,
)
from tests.attack.lab.attack_spellings import one_by_one
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, request
from tests.attack.lab.dns import REFUSED, SERVFAIL
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ADDRESSES, ANY, API, DOOR, EVIL, NAME_SERVER, OTHER
from tests.attack.lab.proxies import Egress, Proxy
from tests.proxy.lab.raw_upstream import Close, Say
from tests.proxy.serve_process import until
from tests.unit.proxy.dns_messages import NOERROR, NXDOMAIN

pytestmark = pytest.mark.system("ip", "iproute2")

METADATA = "169.254.169.254"
PUBLIC = ADDRESSES[f"*.{ANY}"]
NUMBERS = count(1)
INSIDE = (403, "address.refused")


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


def leading_to(lab: Lab, *answers: str) -> str:
    """A name that nobody has asked for yet, and that leads there."""
    name = f"to-{next(NUMBERS)}.{ANY}"
    lab.dns.set(name, *answers)
    return name


def ask(proxy: Proxy, name: str) -> Answer:
    return proxy.ask(name, request(name))


def packed(text: str) -> list[str]:
    """An IPv4 address in every IPv6 address that something on the way may take it out of."""
    number = int(IPv4Address(text))
    wrapped = (
        number | 0xFFFF << 32,
        number,
        number | 0xFFFF << 48,
        number | 0x64_FF9B << 96,
        number | 0x64_FF9B_0001 << 80,
        0x2002 << 112 | number << 80,
        0x2001_0000 << 96 | number << 64 | 0xFFFF_FFFF,
        0x2001_0000 << 96 | 0x2D63_0001 << 64 | number ^ 0xFFFF_FFFF,
        0x2A01_4F80 << 96 | 0x5EFE << 32 | number,
        0x2A01_4F80 << 96 | 0x0200_5EFE << 32 | number,
    )
    return [str(IPv6Address(value)) for value in wrapped]


# Written as such ----------------------------------------------------------------------------------

LITERALS = (
    METADATA,
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "8.8.8.8",
    ADDRESSES[API],
    "[::1]",
    "[::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fc00::1]",
    "[2606:4700::1111]",
    f"[::ffff:{METADATA}]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
)
SPELLED = (
    "2852039166",
    "0xa9fea9fe",
    "0XA9FEA9FE",
    "025177524776",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.254.43518",
    "169.16689662",
    "169.254.169.254.",
    "0169.254.169.254",
    "00000169.00000254.00000169.00000254",
    "425.510.425.510",
    "127.1",
    "127.0.1",
    "0",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.0.0.1.",
    "127.000.000.001",
    "1",
    "[127.0.0.1]",
    "[169.254.169.254]",
    "[0:0:0:0:0:0:0:1]",
    "[::0001]",
    "[::1%lo]",
    "[::1%25lo]",
    "[fe80::1%25wan]",
    "[0:0:0:0:0:ffff:169.254.169.254]",
    "[::ffff:0xa9fea9fe]",
    "::1",
    "[::1",
    "::ffff:127.0.0.1",
    "①⑥⑨.②⑤④.①⑥⑨.②⑤④",
    "169。254。169。254",
    "169.254.169.254@api.good.test",
    "api.good.test@169.254.169.254",
    f"{METADATA}\\.good.test",
)
ASKS = "the resolver of the naive proxy asks for it as for any name; others cut the dot off"
WIDE = "that resolver knows no wide digits and stops; browsers and IDNA make them narrow"
ZONE = "that resolver wants a zone of link-local addresses alone; others drop it"
MIXED = "that resolver knows no such number inside of IPv6; nobody is known to"
NO_RESOLVER_TAKES = {
    "127.0.0.1.": ASKS,
    "169.254.169.254.": ASKS,
    f"{METADATA}\\.good.test": "a name there, which does not exist; browsers end a host at the backslash",
    "①⑥⑨.②⑤④.①⑥⑨.②⑤④": WIDE,
    "169。254。169。254": WIDE,
    "[::1%lo]": ZONE,
    "[::1%25lo]": ZONE,
    "[::ffff:0xa9fea9fe]": MIXED,
}
"""Those that lead the naive proxy nowhere, because of the machine's own resolver; and why they are tried."""


@case("S-18", "an address instead of a name", Harm.REACHED)
def test_an_address_instead_of_a_name(lab: Lab, proxy: Proxy) -> None:
    """Public ones too, and that of the api: what no `networks:` opens is no destination."""
    literal = (403, "host.literal")

    def attempt(address: str) -> None:
        # A mapped address has two spellings, and one of them is none.
        wanted = (literal, (400, "host.malformed"))
        proxy.expects(by_connect(proxy, address, 80), *wanted)
        proxy.expects(by_connect(proxy, address), *wanted)
        proxy.expects(by_url(proxy, address, "/latest/meta-data/"), *wanted)
        proxy.expects(by_host(proxy, address), *wanted)
        if ":" not in address:
            expects_name(proxy, by_name(proxy, address), NXDOMAIN)

    one_by_one(lab, proxy, Harm.REACHED, LITERALS, attempt)


@case("S-18", "an address in a spelling that some resolver understands", Harm.REACHED)
def test_an_address_in_a_spelling_that_some_resolver_understands(lab: Lab, proxy: Proxy) -> None:
    """Each by every way in; the naive proxy comes to an address by all but a few of them."""

    def attempt(spelled: str) -> None:
        text = spelled.encode().decode("latin-1")
        wanted = ((400, "host.malformed"), (400, "request.malformed"), (403, "host.literal"))
        proxy.expects(by_connect(proxy, text, 80), *wanted)
        proxy.expects(by_url(proxy, text), *wanted)
        proxy.expects(by_host(proxy, text), *wanted)
        if spelled.isascii() and "[" not in spelled and ":" not in spelled:
            expects_name(proxy, by_name(proxy, spelled.strip(".")), NXDOMAIN)

    one_by_one(lab, proxy, Harm.REACHED, SPELLED, attempt, NO_RESOLVER_TAKES)


# Resolved to --------------------------------------------------------------------------------------

REFUSED_ADDRESSES = (
    *(
        "0.0.0.0",
        "0.1.2.3",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.2",
        "127.255.255.255",
    ),
    *(
        "169.254.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.255.255",
        "198.18.0.1",
    ),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "192.88.99.1", "169.254.170.2"),
    *("::", "::1", "100::1", "2001:db8::1", "2001::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fdff::1"),
    *("fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "5f00::1", "1000::1", "4000::1", "a000::1"),
    *("fd20:ce::254", "fd00:42::42", "fe80::a9fe:a9fe", "64:ff9b:1::1", "::2"),
)
MANY = "a kernel connects to no group and to no broadcast address"
LINK = "a kernel connects to no address of a link without being told which link"
NOBODY_CONNECTS = {
    **dict.fromkeys(("224.0.0.1", "239.255.255.255", "255.255.255.255", "127.255.255.255"), MANY),
    **dict.fromkeys(("ff02::1", "ff0e::1"), MANY),
    **dict.fromkeys(("fe80::1", "febf::1", "fe80::a9fe:a9fe"), LINK),
}
"""Those that the naive proxy does not come to, because of the kernel below it."""


@case("S-19", "an allowed name that leads to an address nobody may reach", Harm.REACHED)
def test_an_allowed_name_that_leads_to_an_address_nobody_may_reach(lab: Lab, proxy: Proxy) -> None:
    def attempt(address: str) -> None:
        proxy.expects(ask(proxy, leading_to(lab, address)), INSIDE)

    one_by_one(lab, proxy, Harm.REACHED, REFUSED_ADDRESSES, attempt, NOBODY_CONNECTS)


@case("S-19", "an address that is packed into another one", Harm.REACHED)
def test_an_address_that_is_packed_into_another_one(lab: Lab, proxy: Proxy) -> None:
    """Mapped, compatible, translated, NAT64, 6to4, Teredo from both ends, ISATAP."""

    def attempt(address: str) -> None:
        proxy.expects(ask(proxy, leading_to(lab, address)), INSIDE)

    every = [address for inner in (METADATA, "127.0.0.1", "10.0.0.1") for address in packed(inner)]
    one_by_one(lab, proxy, Harm.REACHED, every, attempt)


@case("S-79", "an allowed name that leads back to the machine", Harm.REACHED)
def test_an_allowed_name_that_leads_back_to_the_machine(lab: Lab, proxy: Proxy) -> None:
    """Its public addresses, in every packing; its neighbours on the wire; what the operator has named."""
    four, six = proxy.room.four, proxy.room.six
    wire, wire_six = four.rpartition(".")[0], six.removesuffix("2")
    places = [four, six, *packed(four), f"{wire}.1", f"{wire}.255", f"{wire_six}1"]
    if proxy.name == "egress":
        # Nobody lives there, which takes long to find out for whoever tries.
        places += [f"{wire}.200", f"{wire_six}200"]
    own = OWN_NETWORK.partition("/")[0]
    places += [own, f"{own[:-1]}7", *packed(own)]

    def attempt(address: str) -> None:
        proxy.expects(ask(proxy, leading_to(lab, address)), INSIDE)

    one_by_one(lab, proxy, Harm.REACHED, places, attempt, {f"{wire}.255": MANY})
    proxy.expects(ask(proxy, leading_to(lab, PUBLIC)), (200, ""))


@case("S-19", "the same for what is carried unread, and in clear text", Harm.REACHED)
def test_the_same_for_what_is_carried_unread_and_in_clear_text(lab: Lab, proxy: Proxy) -> None:
    """Other lanes than that of TLS which is read: each of them dials, and each has to look first."""

    def attempt(address: str) -> None:
        clear, unread = f"to-{next(NUMBERS)}.{BELOW_CLEAR}", f"to-{next(NUMBERS)}.{BELOW_UNREAD}"
        for name in (clear, unread):
            lab.dns.set(name, PUBLIC, address)
        proxy.expects(by_url(proxy, clear), INSIDE)
        proxy.expects(by_host(proxy, clear), INSIDE)
        with proxy.connect(f"{clear}:80") as line:
            proxy.expects(line.send(request(clear)).response(), INSIDE)
        for greet in (proxy.tunnel, lambda name: proxy.dial((DOOR, 443))):
            with greet(unread) as line:
                if line.place == (DOOR, 443):
                    line.to_tls(proxy.ca_pem, unread, verify=False)
                assert proxy.name == "naive" or "ACCESS_DENIED" in line.failure, line.failure

    places = (METADATA, "127.0.0.1", "10.0.0.1", "::1", proxy.room.four, *packed("127.0.0.1")[:4])
    one_by_one(lab, proxy, Harm.REACHED, places, attempt)


@case("S-18 S-19", "rules that open too much", Harm.REACHED)
def test_rules_that_open_too_much(lab: Lab, proxy: Proxy) -> None:
    """A whole network in the rules, by address and by name: the metadata services in it stay closed."""
    services = (METADATA, "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
    name = f"wide-{proxy.name}.{ANY}"
    if not isinstance(proxy, Egress):
        lab.dns.set(name, METADATA)
        ask(proxy, name)
        return
    rules = (
        lab.rules()
        + f"""
  {name}: {{allow: all, ports: [], http: true, addresses: [0.0.0.0/0, "::/0"]}}
networks:
  - {{cidr: 0.0.0.0/0, ports: [], http: true, allow: all}}
  - {{cidr: "::/0", ports: [], http: true, allow: all}}
"""
    )
    with lab.egress(rules) as own:
        for address in services:
            host = f"[{address}]" if ":" in address else address
            own.expects(by_url(own, host), INSIDE)
        lab.dns.set(name, *services)
        own.expects(by_url(own, name), INSIDE)
        # What was meant: the network, but for these.
        own.expects(by_url(own, "10.9.9.9"), (200, ""))
        own.expects(by_url(own, "[fd00::9]"), (200, ""))
        lab.hold(own, also=(("10.9.9.9", 80), ("fd00::9", 80)))


@case("S-19", "one bad address among good ones", Harm.REACHED)
def test_one_bad_address_among_good_ones(lab: Lab, proxy: Proxy) -> None:
    """First, last, of the other family, and the last of hundreds: which one is dialled is left to chance."""
    many = [f"45.99.{number // 250}.{number % 250 + 1}" for number in range(300)]
    good = [PUBLIC]
    rows = (
        [METADATA, *good],
        [*good, "10.0.0.1"],
        [*good, "::1"],
        [*good, "fd00::1"],
        [*good, f"::ffff:{METADATA}"],
        [*good, "64:ff9b::7f00:1"],
        [*good, proxy.room.four],
        [*good, proxy.room.six],
        [*many, "127.0.0.1"],
        ["127.0.0.1", *many],
        [f"2606:4700::{number:x}" for number in range(1, 300)] + ["fe80::1"],
    )
    answers = {f"{len(row)} from {row[0]} to {row[-1]}": row for row in rows}
    assert len(answers) == len(rows)

    def attempt(what: str) -> None:
        proxy.expects(ask(proxy, leading_to(lab, *answers[what])), INSIDE)

    first = "the resolver puts the good address first, and that one answers"
    lucky = ([METADATA, *good], [*good, "10.0.0.1"], [*good, "fd00::1"], [*good, f"::ffff:{METADATA}"])
    immune = {what: first for what, row in answers.items() if row in lucky}
    one_by_one(lab, proxy, Harm.REACHED, answers, attempt, immune)


HUNDREDS = tuple(f"45.10.200.{number}" for number in range(1, 200))


@case(
    "S-19",
    "a name with hundreds of addresses",
    Harm.STARVED,
    also=tuple((address, DEAD_PORT) for address in HUNDREDS),
)
def test_a_name_with_hundreds_of_addresses(lab: Lab, proxy: Proxy) -> None:
    """Some are tried, and no more: a zone of the attacker's must not be a list of places to knock at."""
    lab.dns.set(DEAD, *HUNDREDS)
    proxy.expects(by_url(proxy, f"{DEAD}:{DEAD_PORT}"), (502, "upstream.unreachable"))
    tried = [each for each in let_out(lab, proxy) if each.kind == "tcp"]
    assert tried, "nothing was dialled, so nothing is proven"
    if len(tried) > 16:
        raise Finding(Harm.STARVED, f"{len(tried)} places were tried")
    proxy.expects(ask(proxy, leading_to(lab, *[PUBLIC] * 200)), (200, ""))


@case("S-19", "a name that changes its mind", Harm.REACHED)
def test_a_name_that_changes_its_mind(lab: Lab, proxy: Proxy) -> None:
    """TTL 0, and another answer for each question: what was checked is what is dialled, every time.

    Many names, because an answer is kept for some seconds; some begin with the bad address, some flip between
    the two questions of one look-up.
    """
    served = 0
    for turn, bad in enumerate((METADATA, "127.0.0.1", "10.0.0.1", "::1", "fd00::1", proxy.room.four) * 2):
        name = f"flip-{next(NUMBERS)}.{ANY}"
        rows = [(PUBLIC,), (bad,)] if turn % 2 else [(PUBLIC,), (bad,), (PUBLIC, bad), (bad, PUBLIC)]
        lab.dns.set_row(name, *(rows if turn < 6 else rows[::-1]))
        for _ in range(3):
            answer = ask(proxy, name)
            proxy.expects(answer, (200, ""), INSIDE, (502, "upstream.unresolved"))
            served += answer.status == 200
    assert served, "nothing was dialled, so nothing is proven"


@case("S-19", "a name that changes its mind once it is not remembered any more", Harm.REACHED)
def test_a_name_that_changes_its_mind_once_it_is_forgotten(lab: Lab, proxy: Proxy) -> None:
    """On one tunnel, whose host hangs up each time: every new connection is looked at anew."""
    name = f"later-{next(NUMBERS)}.{ANY}"
    ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
    lab.any.script("/hang-up", Say(ok), Close())
    lab.dns.set(name, PUBLIC)
    with proxy.tunnel(name) as line:
        proxy.expects(line.send(request(name, "/hang-up")).response(), (200, ""))
        lab.dns.set(name, METADATA)

        def is_refused() -> bool:
            answer = line.send(request(name, "/hang-up")).response()
            proxy.expects(answer, (200, ""), INSIDE)
            return answer.code == "address.refused"

        if proxy.name == "egress":
            until(is_refused, "the new address to be seen")
    if proxy.name == "egress":
        assert len([each for each in lab.questions(proxy) if each.name == name]) >= 4
    else:
        ask(proxy, name)


@case("S-19", "a name that is another name", Harm.REACHED)
def test_a_name_that_is_another_name(lab: Lab, proxy: Proxy) -> None:
    """However long the row of aliases is, it is the address in the end that counts."""
    lab.dns.set("inside.corp.test", "10.4.5.6")
    lab.dns.set("own.corp.test", proxy.room.four)
    lab.dns.set("both.corp.test", PUBLIC, "fd00::1")
    for end in ("inside.corp.test", "own.corp.test", "both.corp.test"):
        name = leading_to(lab, end)
        for _ in range(12):
            name = leading_to(lab, name)
        proxy.expects(ask(proxy, name), INSIDE)
    lab.dns.set("outside.corp.test", PUBLIC)
    proxy.expects(ask(proxy, leading_to(lab, leading_to(lab, "outside.corp.test"))), (200, ""))


@case("S-19", "an allowed name that leads to the attacker", Harm.STOLEN, also=((ADDRESSES[EVIL], 443),))
def test_an_allowed_name_that_leads_to_the_attacker(lab: Lab, proxy: Proxy) -> None:
    """By address, and by alias: who has the name server has no certificate, and so gets no request."""
    for end in (ADDRESSES[EVIL], EVIL, f"x.{EVIL}"):
        proxy.expects(ask(proxy, leading_to(lab, end)), (502, "upstream.tls"))
    if lab.sent(proxy, lab.evil):
        raise Finding(Harm.STOLEN, "the attacker got a request")


# Not resolved -------------------------------------------------------------------------------------


@case("S-19", "a name that does not resolve", Harm.ASKED)
def test_a_name_that_does_not_resolve(lab: Lab, proxy: Proxy) -> None:
    """It is no other name then: the search list of the machine would lead to somebody else's."""
    unresolved = (502, "upstream.unresolved")
    for number, code in enumerate((NXDOMAIN, SERVFAIL, REFUSED, NOERROR)):
        name = f"nowhere-{number}-{proxy.name}.{ANY}"
        lab.dns.fail(name, code)
        proxy.expects(ask(proxy, name), unresolved)
    proxy.expects(ask(proxy, leading_to(lab, "nobody.corp.test")), unresolved)
    if proxy.name == "egress":
        assert not [each for each in let_out(lab, proxy) if each.target != (NAME_SERVER, 53)]


@case("S-19", "a name server that keeps silent", Harm.STARVED)
def test_a_name_server_that_keeps_silent(lab: Lab, proxy: Proxy) -> None:
    """Its names wait; the others do not."""
    slow = [f"slow-{next(NUMBERS)}.{ANY}" for _ in range(5)]
    lab.dns.hold(*slow)
    answers: list[Answer] = []
    askers = [threading.Thread(target=lambda name=name: answers.append(ask(proxy, name))) for name in slow]
    quick = leading_to(lab, PUBLIC)
    found: list[Answer] = []
    asker = threading.Thread(target=lambda: found.append(ask(proxy, quick)))
    try:
        for each in askers:
            each.start()
        until(lambda: sum(bool(lab.dns.held(name)) for name in slow) >= 4, "four names to be asked for")
        asker.start()
        # At the proxy under test it comes; at the other one it never does.
        asker.join(1.0 if proxy.name == "naive" else 10.0)
        starved = asker.is_alive()
    finally:
        lab.internet.run(_released(lab, slow))
        for each in (*askers, asker):
            each.join()
    for answer in (*answers, *found):
        proxy.expects(answer, (200, ""))
    assert len(answers) == 5
    if starved:
        raise Finding(Harm.STARVED, "another name was not looked up meanwhile")


async def _released(lab: Lab, names: list[str]) -> None:
    lab.dns.release(*names)


# Redirected to ------------------------------------------------------------------------------------


@case("S-18", "an allowed host that redirects to where nobody may go", Harm.REACHED)
def test_an_allowed_host_that_redirects_to_where_nobody_may_go(lab: Lab, proxy: Proxy) -> None:
    """The client follows, and what it asks for then is decided as if nothing had been before."""
    inside = leading_to(lab, "10.7.7.7")
    places = (
        f"http://{METADATA}/latest/meta-data/",
        f"https://{METADATA}/",
        "http://127.0.0.1:8080/",
        "http://[::1]/",
        "http://2852039166/",
        f"https://{inside}/",
        f"https://{EVIL}/",
        f"http://{EVIL}/?t=x",
        f"//{EVIL}/",
        f"http://{API}/",
        f"https://{API}:8443/",
    )
    for place in places:
        for host in (OTHER, API):
            answer = proxy.ask(host, request(host, f"/redirect?to={place.replace('?', '%3F')}"))
            location = answer.header("location")
            if location is None:
                proxy.expects(answer, (403, "redirect.refused"), (403, "response.withheld"))
                continue
            assert answer.status == 302
            _follow(proxy, location)


def _follow(proxy: Proxy, location: str) -> None:
    """Do as a client does: CONNECT for https, a full URL for the rest."""
    scheme, _, rest = (location if ":" in location.partition("/")[0] else f"https:{location}").partition(
        "://"
    )
    authority, slash, path = rest.partition("/")
    if scheme == "http":
        answer = proxy.say(request(authority, f"http://{authority}{slash}{path}"))
    else:
        host, _, port = authority.partition(":")
        answer = proxy.ask(host, request(authority, slash + path), int(port or 443))
    assert proxy.name == "naive" or (answer.status >= 400 and answer.code), (location, answer)
