"""Names in disguise: however a host is spelled, it is the one that rules name, or it is refused; class 4.

S-12, S-13, and their neighbours: depth and apex of wildcards, user info, NUL, escapes, brackets, look-alike
letters and dots, punycode. Each by CONNECT, full URL, SNI, Host, and as a question for a name.
"""

from __future__ import annotations

import pytest

from tests.attack.catalogue.proxy_entries import (
    REASONS,
    by_connect,
    by_host,
    by_name,
    by_sni,
    by_tunnel,
    by_url,
    bytes_back,
    expects_denied_name,
    expects_name,
    let_out,
)
from tests.attack.lab.attack_spellings import one_by_one
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ADDRESSES, ANY, API, DOOR, EVIL, PLAIN, SCOPED
from tests.attack.lab.proxies import Egress, Proxy
from tests.unit.proxy.dns_messages import NOERROR, NXDOMAIN, query, wire_name
from tests.unit.proxy.hellos import hello, server_name

pytestmark = pytest.mark.system("ip", "iproute2")

UNKNOWN = (403, "host.unknown")
NO_NAME = ((400, "host.malformed"), (400, "request.malformed"))
NO_WORDS = (0, "")


@pytest.fixture(scope="session")
def egress(everywhere: Egress) -> Egress:
    return everywhere


def wire(text: str) -> str:
    """The bytes of a text as characters, which is how they are sent."""
    return text.encode().decode("latin-1")


@case("S-12", "the same host in capitals and with a dot behind it", Harm.STOLEN)
def test_the_same_host_in_another_spelling(lab: Lab, proxy: Proxy) -> None:
    """The same rules, the same secret, and the plain name for the host behind."""
    for spelled in (SCOPED.upper(), f"{SCOPED}.", SCOPED.title(), f"{SCOPED.swapcase()}."):
        # Not every client takes a certificate for a name with a dot behind it.
        proxy.expects(proxy.ask(spelled, request(spelled), verify=False), (200, ""))
        proxy.expects(proxy.ask(SCOPED, request(spelled), sni=spelled, verify=False), (200, ""))
        proxy.expects(proxy.ask(SCOPED, request(SCOPED, f"https://{spelled}/echo")), (200, ""))
        proxy.expects(proxy.ask(spelled, request(spelled, "/user"), verify=False), (403, "rule.none"))
        proxy.expects(by_sni(proxy, spelled, request(f"{spelled}:443")), (200, ""))
        expects_name(proxy, by_name(proxy, spelled.removesuffix(".")), NOERROR, DOOR)
    for spelled in (PLAIN.upper(), f"{PLAIN}."):
        proxy.expects(by_url(proxy, spelled), (200, ""))
        proxy.expects(by_host(proxy, spelled), (200, ""))
    if proxy.name == "egress":
        found = lab.sent(proxy, lab.scoped)
        assert len(found) == 16
        assert {tuple(each.headers("host")) for each in found} == {(SCOPED,)}
        assert {tuple(each.headers("host")) for each in lab.sent(proxy, lab.internet.plain)} == {(PLAIN,)}


@case("S-12", "a denied host in capitals and with a dot behind it", Harm.ASKED)
def test_a_denied_host_in_another_spelling(lab: Lab, proxy: Proxy) -> None:
    codes = {
        spelled: code
        for name, code in REASONS.items()
        for spelled in (name.upper(), f"{name}.", f"{name.title()}.")
    }

    def attempt(spelled: str) -> None:
        refused = (403, codes[spelled])
        proxy.expects(by_tunnel(proxy, spelled), refused)
        proxy.expects(by_url(proxy, spelled), refused, (403, "host.cleartext"))
        proxy.expects(by_host(proxy, spelled), refused, (403, "host.cleartext"))
        proxy.expects(by_sni(proxy, spelled), refused)

    one_by_one(lab, proxy, Harm.ASKED, codes, attempt)


@case("S-13", "a name that is only alike", Harm.STOLEN)
def test_a_name_that_is_only_alike(lab: Lab, proxy: Proxy) -> None:
    """A suffix, a prefix, a label more or less, another letter: all of them are the attacker's."""
    alike = (
        "evilgood.test",
        "evil-api.good.test",
        f"{API}.{EVIL}",
        f"x.{API}",
        "good.test",
        "test",
        "pi.good.test",
        "api.good.tes",
        "api.good.testing",
        "api.good.test.test",
        "apixgood.test",
        "api-good.test",
        "other.api.good.test",
        "api.good",
        "localhost",
    )

    def attempt(name: str) -> None:
        lab.dns.set(name, ADDRESSES[EVIL])
        proxy.expects(proxy.ask(name, request(API)), UNKNOWN)
        proxy.expects(proxy.ask(name, request(name)), UNKNOWN)
        proxy.expects(by_url(proxy, name), UNKNOWN)
        proxy.expects(by_host(proxy, name), UNKNOWN)
        proxy.expects(by_sni(proxy, name), UNKNOWN)
        expects_denied_name(proxy, by_name(proxy, name), name)

    one_by_one(lab, proxy, Harm.STOLEN, alike, attempt)
    for name in alike:
        lab.dns.forget(name)


@case("S-13", "the apex of a wildcard, and what is too deep below it", Harm.ASKED)
def test_the_apex_of_a_wildcard_and_what_is_too_deep_below_it(lab: Lab, proxy: Proxy) -> None:
    """`*.` is exactly one label: not the apex, not two, no star, no empty one, no dot inside."""

    def attempt(name: str) -> None:
        proxy.expects(by_tunnel(proxy, name), UNKNOWN)
        proxy.expects(by_sni(proxy, name), UNKNOWN)
        expects_denied_name(proxy, by_name(proxy, name), name)

    wrong = (ANY, f"a.b.{ANY}", f"a.{ANY}.b.{ANY}", f"x{ANY}", f"evil.test.{ANY}", f"a.b.c.d.e.f.{ANY}")
    one_by_one(lab, proxy, Harm.ASKED, wrong, attempt)
    for name in (f"*.{ANY}", f".{ANY}", f"..{ANY}", f"a..{ANY}", f"{'a' * 64}.{ANY}", f"a\\.b.{ANY}"):
        proxy.expects(by_connect(proxy, name), *NO_NAME)
    for labels in (
        (b"a.b", b"any", b"good", b"test"),
        (b"a", b"any.good.test"),
        (b"evil.test\0", b"any", b"good", b"test"),
        (b"a", b"any", b"good", b"test\0"),
        (b"*", b"any", b"good", b"test"),
        (b"a", b"any", b"good", b"test."),
        (b"\xc3\xa9", b"any", b"good", b"test"),
    ):
        expects_name(proxy, by_name(proxy, wire_name(*labels)), NXDOMAIN)
    if lab.wait(proxy, lambda: lab.questions(proxy)):
        raise Finding(Harm.ASKED, str(lab.questions(proxy)[0]))


TRICKS = (
    f"{API}@{EVIL}",
    f"{API}:443@{EVIL}",
    f"u:p@{EVIL}",
    f"@{EVIL}",
    f"{EVIL}\0.{API}",
    f"{EVIL}\0",
    f"\0{EVIL}",
    f"[{EVIL}]",
    f"[[{EVIL}]]",
    f"[{EVIL}",
    f"{EVIL}]",
    f"{EVIL}%00.{API}",
    f"{EVIL}%2e{API}",
    "%65vil.test",
    f"{EVIL}/.{API}",
    f"{EVIL}#.{API}",
    f"{EVIL}?.{API}",
    f"{EVIL}\\.{API}",
    f"{EVIL};.{API}",
    f"{EVIL},{API}",
    f"{EVIL}|{API}",
    f"{EVIL} {API}",
    f"{EVIL}\t.{API}",
    f" {EVIL}",
    f"{EVIL}..",
    f".{EVIL}",
    f"..{EVIL}",
    "evil\xad.test",
    "\xaapi.good.test",
    wire("ａｐｉ.good.test"),
    wire("evil。test"),
    wire("evil．test"),
    wire("evil｡test"),
    wire("аpi.good.test"),
    wire("ſcoped.good.test"),
    wire("bücher.any.good.test"),
    wire("\u200bevil.test"),
    "xn--.any.good.test",
    "xn--a.any.good.test",
    "xn--zzzzzz99999.any.good.test",
    "xn--api-.good.test",
    "XN--BCHER-KVA\0.any.good.test",
    f"{'a.' * 130}any.good.test",
    f"{'a' * 300}",
    "*",
    "",
)
NO_NAME_AT_ALL = "no resolver is asked for an empty label, or for one of more than 63 bytes"
ONE_NAME = "it is one odd name, which does not exist; a proxy that cuts or unescapes it comes to the attacker"
WIDE_LETTERS = "the wide letters are bytes, and no name in UTF-8; whoever reads them so comes to another name"
NO_RESOLVER_TAKES = {
    **dict.fromkeys(("", f".{EVIL}", f"..{EVIL}", f"{EVIL}..", f"\0{EVIL}"), NO_NAME_AT_ALL),
    **dict.fromkeys((f"{'a.' * 130}any.good.test", f"{'a' * 300}"), NO_NAME_AT_ALL),
    **dict.fromkeys((f"{EVIL}%00.{API}", f"{EVIL}%2e{API}", "%65vil.test"), ONE_NAME),
    **dict.fromkeys((f"{EVIL}\\.{API}", f"{EVIL};.{API}", f"{EVIL},{API}", f"{EVIL}|{API}"), ONE_NAME),
    **dict.fromkeys((wire("evil。test"), wire("evil．test")), WIDE_LETTERS),
    **dict.fromkeys((wire("ａｐｉ.good.test"), wire("\u200bevil.test")), WIDE_LETTERS),
}
"""Those for which the naive proxy finds no address, and why they are tried all the same."""


@case("S-13", "names that are none", Harm.REACHED)
def test_names_that_are_none(lab: Lab, proxy: Proxy) -> None:
    """Refused and not repaired: whoever repairs them may come to another name."""

    def attempt(name: str) -> None:
        proxy.expects(by_connect(proxy, name), *NO_NAME)
        proxy.expects(by_url(proxy, name), *NO_NAME, (400, "proxy.form"))
        # White space around a field is none of its value.
        if name == name.strip(" \t"):
            proxy.expects(by_host(proxy, name), *NO_NAME)
        if proxy.name == "egress":
            greeting = hello(server_name(name.encode("latin-1")))
            assert bytes_back(proxy, greeting).startswith(b"\x15\x03\x03\x00\x02\x02"), name

    one_by_one(lab, proxy, Harm.REACHED, TRICKS, attempt, NO_RESOLVER_TAKES)


@case("S-13", "names of the world, in the spelling of the wire", Harm.STOLEN)
def test_names_of_the_world_in_the_spelling_of_the_wire(lab: Lab, proxy: Proxy) -> None:
    """Punycode that stands for a name is that name; a look-alike of another host is another host."""
    proxy.expects(by_connect(proxy, f"xn--bcher-kva.{ANY}"), (200, ""))
    proxy.expects(by_connect(proxy, f"XN--BCHER-KVA.{ANY}"), (200, ""))
    # The same in Cyrillic, in Greek, with a dotless i, and in full width.
    labels = ("xn--pi-6kc", "xn--ap-7lc", "xn--ap-eka", "xn--api-hy1e", "xn--80ak6aa92e")

    def attempt(label: str) -> None:
        name = f"{label}.good.test"
        lab.dns.set(name, ADDRESSES[EVIL])
        proxy.expects(proxy.ask(name, request(API)), UNKNOWN, *NO_NAME)
        proxy.expects(by_url(proxy, name), UNKNOWN, *NO_NAME)
        proxy.expects(by_sni(proxy, name), UNKNOWN, NO_WORDS)

    one_by_one(lab, proxy, Harm.STOLEN, labels, attempt)
    for label in labels:
        lab.dns.forget(f"{label}.good.test")


@case(
    "S-13",
    "names of the longest, and of letters that hosts rarely have",
    naive="it takes them as well: they are names",
    twin="test_names_that_are_none",
)
def test_names_that_are_names_after_all(lab: Lab, proxy: Proxy) -> None:
    """The good twin: what is odd and has one reading is served, so nobody is made to weaken the rules."""
    for label in ("a--b", "0", "1e3", "a" * 63, "0x7f"):
        name = f"{label}.{ANY}"
        proxy.expects(proxy.ask(name, request(name)), (200, ""))
        expects_name(proxy, by_name(proxy, name), NOERROR, DOOR)
    assert {each.target[0] for each in let_out(lab, proxy) if each.kind == "tcp"} == {ADDRESSES[f"*.{ANY}"]}
    # No wildcard of a certificate stands for an underscore, so this one gets as far as that.
    proxy.expects(proxy.ask(f"_x.{ANY}", request(f"_x.{ANY}")), (502, "upstream.tls"))


@pytest.mark.parametrize("label", ["x-", "a--"])
def test_a_name_that_no_certificate_can_prove_is_refused_with_a_word(
    lab: Lab, egress: Egress, label: str
) -> None:
    """A hyphen at the end of a label: at the door, or once it is known that nobody can be that host."""
    lab.begin(egress)
    name = f"{label}.{ANY}"
    egress.expects(egress.ask(name, request(name)), (400, "host.malformed"), (502, "upstream.tls"))


def test_a_question_may_be_written_in_any_case(lab: Lab, egress: Egress) -> None:
    """Resolvers that mix the case of letters compare the answer with what they sent, letter by letter."""
    lab.begin(egress)
    asked = query("ApI.gOoD.tEsT")
    reply = by_name(egress, "ApI.gOoD.tEsT")
    assert asked[12:] in reply
    must_be_none(lab.harms(egress))
