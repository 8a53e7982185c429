"""The first cases of the catalogue: where a request may go, what it may say, and what may come back."""

from __future__ import annotations

import pytest

from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import (
    ADDRESSES,
    ANY,
    API,
    BEHIND,
    BLOCKING,
    CERTIFICATES_GONE_WRONG,
    EVIL,
    EXPIRED,
    FRONT,
    OTHER,
    SCOPED,
    STANDIN,
)
from tests.attack.lab.proxies import Proxy
from tests.proxy.lab.http1 import Request

pytestmark = pytest.mark.system("ip", "iproute2")

METADATA = "169.254.169.254"


# Where to ---------------------------------------------------------------------------------------


@case("S-01", "a host that no rule names", Harm.REACHED)
def test_a_host_that_no_rule_names(lab: Lab, proxy: Proxy) -> None:
    """Neither dialled, nor asked for."""
    proxy.expects(proxy.ask(EVIL, request(EVIL)), (403, "host.unknown"))
    proxy.expects(proxy.say(request(EVIL, f"http://{EVIL}/echo")), (403, "host.unknown"))


@case("S-10", "CONNECT to the attacker, Host of the api", Harm.STOLEN)
def test_connect_to_the_attacker_with_the_host_of_the_api(lab: Lab, proxy: Proxy) -> None:
    proxy.expects(proxy.ask(EVIL, request(API)), (403, "host.unknown"))


@case("S-11", "CONNECT to the api, Host of somebody else", Harm.STOLEN)
def test_connect_to_the_api_with_the_host_of_somebody_else(lab: Lab, proxy: Proxy) -> None:
    """The secret must not go out in the name of a host that it is not for, either."""
    for host in (EVIL, OTHER, f"{API}.{EVIL}", f"{API}@{EVIL}"):
        answer = proxy.ask(API, request(host))
        proxy.expects(answer, (421, "request.mismatch"), (400, "request.malformed"))


@case("S-11", "a host behind the address of an allowed one", Harm.SENT)
def test_a_host_behind_the_address_of_an_allowed_one(lab: Lab, proxy: Proxy) -> None:
    """Domain fronting: the tunnel and TLS name the one, `Host` the other."""
    proxy.expects(proxy.ask(FRONT, request(BEHIND)), (421, "request.mismatch"))
    if lab.sent(proxy, lab.site(FRONT), lambda each: BEHIND in each.headers("host")):
        raise Finding(Harm.SENT, "the host behind was asked")


@case("S-15", "an injected host in clear text", Harm.CLEAR)
def test_an_injected_host_in_clear_text(lab: Lab, proxy: Proxy) -> None:
    """Neither in absolute form, nor through a tunnel without TLS in it."""
    proxy.expects(proxy.say(request(API, f"http://{API}/echo")), (403, "host.cleartext"))
    with proxy.connect(f"{API}:80") as line:
        proxy.expects(line.send(request(API)).response(), (403, "host.port"))


@case("S-18", "the metadata service by its address", Harm.REACHED)
def test_the_metadata_service_by_its_address(lab: Lab, proxy: Proxy) -> None:
    refused = (403, "host.literal")
    proxy.expects(proxy.say(request(METADATA, f"http://{METADATA}/latest/meta-data")), refused)
    for spelling in (METADATA, "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", f"[::ffff:{METADATA}]"):
        with proxy.connect(f"{spelling}:80") as line:
            proxy.expects(line.answer, refused, (400, "host.malformed"))


@case("S-19", "allowed names that lead inside", Harm.REACHED)
def test_allowed_names_that_lead_inside(lab: Lab, proxy: Proxy) -> None:
    """A private address, loopback, the machine itself, a mixture, and another name that leads inside."""
    inside = {
        "private": ("10.1.2.3",),
        "metadata": (METADATA,),
        "loopback": ("127.0.0.1",),
        "itself": (proxy.room.four,),
        "shared": ("100.64.0.1",),
        "mapped": ("::ffff:10.0.0.1",),
        "translated": ("64:ff9b::a9fe:a9fe",),
        "local": ("fd00::1",),
        "mixture": (ADDRESSES[API], "192.168.0.1"),
        "alias": ("inside.corp.test",),
    }
    lab.dns.set("inside.corp.test", "10.4.5.6")
    for kind, addresses in inside.items():
        name = f"s19-{kind}-{proxy.name}.{ANY}"
        lab.dns.set(name, *addresses)
        proxy.expects(proxy.ask(name, request(name)), (403, "address.refused"))


@case("S-20", "bytes in a tunnel that are not TLS", Harm.SENT)
def test_bytes_in_a_tunnel_that_are_not_tls(lab: Lab, proxy: Proxy) -> None:
    """Whoever lives at the other end must not get a byte of them."""
    secret_plans = b"\x00\x01 these are not the bytes of a greeting\r\n\r\n"
    for data in (secret_plans, b"SSH-2.0-x\r\n" + secret_plans, request(OTHER) + secret_plans):
        with proxy.connect(f"{OTHER}:443") as line:
            line.send(data).finish()
            line.everything()
    if lab.wait(proxy, lambda: lab.heard(proxy, OTHER) or _carried(proxy, secret_plans)):
        raise Finding(Harm.SENT, "what is not TLS was passed on")


def _carried(proxy: Proxy, data: bytes) -> bool:
    proxy.wire.barrier()
    towards = (ADDRESSES[OTHER], 443)
    return any(target == towards and data in text for _, target, text in proxy.wire.carried())


# To whom ----------------------------------------------------------------------------------------


@case("S-21 S-22", "hosts that cannot prove who they are", Harm.SENT)
def test_hosts_that_cannot_prove_who_they_are(lab: Lab, proxy: Proxy) -> None:
    """The request with its secret must not leave before that is known."""
    for name in CERTIFICATES_GONE_WRONG:
        proxy.expects(proxy.ask(name, request(name)), (502, "upstream.tls"))
        if lab.sent(proxy, lab.site(name)):
            raise Finding(Harm.SENT, f"{name} got a request")
    if proxy.name == "egress" and not lab.connections(proxy, EXPIRED):
        raise AssertionError("nobody was dialled, so nothing was proven")


# What it says -----------------------------------------------------------------------------------


@case("S-05", "a stand-in that is sent to another allowed host", Harm.STOLEN)
def test_a_stand_in_that_is_sent_to_another_allowed_host(lab: Lab, proxy: Proxy) -> None:
    """Swapped at the host that it is for, and nowhere else; the good twin comes first."""
    key = f"x-api-key: {proxy.stand_in()}"
    assert proxy.ask(STANDIN, request(STANDIN, "/status?code=200", key)).status == 200
    good = lab.sent(proxy, lab.site(STANDIN))
    assert good[-1].header("x-api-key") == lab.secrets.other.value.decode("latin-1")
    refused = (403, "placeholder.misplaced")
    proxy.expects(proxy.ask(OTHER, request(OTHER, "/echo", key)), refused)
    proxy.expects(proxy.ask(OTHER, request(OTHER, f"/echo?t={proxy.stand_in()}")), refused)


@case("S-16", "paths that servers read as another one", Harm.SENT)
def test_paths_that_servers_read_as_another_one(lab: Lab, proxy: Proxy) -> None:
    tricks = (
        "/repos/acme/../../user",
        "/repos/acme/%2e%2e/%2e%2e/user",
        "/repos/acme/..%2f..%2fuser",
        "/repos/acme/..\\..\\user",
        "/repos/acme/..;/..;/user",
        "/repos/acme/%252e%252e/%252e%252e/user",
        "/repos/acme//../../user",
        "/repos/acme/./../../user",
    )
    for target in tricks:
        answer = proxy.ask(SCOPED, request(SCOPED, target))
        proxy.expects(answer, (400, "path.ambiguous"), (403, "rule.none"))
        if lab.sent(proxy, lab.scoped):
            raise Finding(Harm.SENT, f"the host was asked for {target}")


@case("S-23", "a body that two servers read differently", Harm.SENT)
def test_a_body_that_two_servers_read_differently(lab: Lab, proxy: Proxy) -> None:
    """CL.TE and TE.CL: what one takes for a body is a second request for the other."""
    hidden = request(SCOPED, "/repos/secret/plans", method="DELETE")
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)
    both = "transfer-encoding: chunked"
    shapes = (
        _post(both, f"content-length: {len(hidden) + 5}") + b"0\r\n\r\n" + hidden,
        _post(f"content-length: {len(hidden) + 5}", both) + b"0\r\n\r\n" + hidden,
        _post("content-length: 4", both) + chunk,
        _post("content-length: 0", f"content-length: {len(hidden)}") + hidden,
        _post("transfer-encoding: identity, chunked", "content-length: 5") + b"0\r\n\r\n" + hidden,
    )
    for data in shapes:
        answer = proxy.ask(SCOPED, data)
        proxy.expects(answer, (400, "request.framing"), (400, "request.malformed"))
    if lab.sent(proxy, lab.scoped, _is_hidden):
        raise Finding(Harm.SENT, "the host took the body for a request")


def _post(*lines: str) -> bytes:
    return request(SCOPED, "/repos/acme/app/issues", "content-type: application/json", *lines, method="POST")


def _is_hidden(each: Request) -> bool:
    return each.method == "DELETE"


# What comes back --------------------------------------------------------------------------------


@case("S-07", "a secret in a plain answer", Harm.LEAKED)
def test_a_secret_in_a_plain_answer(lab: Lab, proxy: Proxy) -> None:
    for form in ("plain", "base64", "hex", "percent", "json", "html", "middle"):
        answer = proxy.ask(API, request(API, f"/give/{form}"))
        assert answer.status == 200, f"{form}: {answer}"
    proxy.ask(BLOCKING, request(BLOCKING, "/give/plain"))
    assert len(lab.sent(proxy, lab.api)) >= 7, "without a request there is nothing to give back"


@case("S-08", "a secret in a compressed answer", Harm.LEAKED)
def test_a_secret_in_a_compressed_answer(lab: Lab, proxy: Proxy) -> None:
    for coding in ("gzip", "br", "zstd", "deflate"):
        assert proxy.ask(API, request(API, f"/echo-{coding}")).status == 200
    for path in ("/give/gzip-gzip", "/give/x-unknown", "/give/not-gzip", "/give/raw-deflate"):
        proxy.ask(API, request(API, path))
    assert len(lab.sent(proxy, lab.api)) >= 8, "without a request there is nothing to give back"
