"""Who may use the proxy, and what there is of the proxy itself to be had; classes 20 and 21.

S-49 (the control socket, admin pages, the proxy by way of itself), S-54 (guessed identities), S-78 (another
user of the machine at the port on loopback).
"""

from __future__ import annotations

import base64
import re
import secrets
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.attack.catalogue.proxy_entries import by_tunnel
from tests.attack.lab.cases import case
from tests.attack.lab.client import basic, request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ANY, API, EVIL, OTHER, PLAIN
from tests.attack.lab.proxies import LISTEN, Egress, Proxy

pytestmark = pytest.mark.system("ip", "iproute2")

FORM = (400, "proxy.form")
LITERAL = (403, "host.literal")
UNKNOWN = (403, "host.unknown")
STRANGER = 1000


# S-49: the proxy itself ---------------------------------------------------------------------------

PAGES = (
    "/",
    "/status",
    "/healthz",
    "/readyz",
    "/metrics",
    "/placeholders",
    "/sandboxes",
    "/debug/pprof",
    "/flows",
)


@case("S-49", "pages of the proxy, asked for at its port", Harm.LEAKED)
def test_pages_of_the_proxy_asked_for_at_its_port(lab: Lab, proxy: Proxy) -> None:
    """What the control socket answers is answered by no port, under whatever name."""
    for page in PAGES:
        for host in ("127.0.0.1:3128", "localhost:3128", "egress", ""):
            proxy.expects(proxy.say(request(host, page)), FORM, (400, "request.malformed"))
    for page in ("/stop", "/kill", "/reload", "/sandboxes"):
        data = request(
            "egress", page, "content-type: application/json", method="POST", body=b'{"name": "default"}'
        )
        proxy.expects(proxy.say(data), FORM)
    proxy.expects(proxy.say(request("egress", "/sandboxes/default", method="DELETE")), FORM)
    if isinstance(proxy, Egress):
        assert proxy.status() is None
        assert not proxy.records("killed")


@case("S-49", "the control socket, by way of the proxy", Harm.REACHED)
def test_the_control_socket_by_way_of_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """Whatever a URL of a socket looks like to some client; and the name that the socket is asked by."""
    path = str(proxy.runtime / "control.sock") if isinstance(proxy, Egress) else "/run/control.sock"
    malformed = ((400, "request.malformed"), (400, "host.malformed"), FORM, (421, "request.mismatch"))
    for target in (
        f"http://unix:{path}:/status",
        f"http://unix{path}/status",
        f"unix://{path}/status",
        f"unix:{path}:/status",
        f"http+unix://{path.replace('/', '%2F')}/status",
        f"http://{path.replace('/', '%2F')}/status",
        f"file://{path}",
        f"http://[{path}]/status",
        f"http://@{path}",
        f"http://\0{path}/status",
    ):
        proxy.expects(proxy.say(request("egress", target)), *malformed)
    for authority in (
        f"unix:{path}:443",
        f"{path}:443",
        f"unix{path}:443",
        f"[unix:{path}]:443",
        f"\0{path}:80",
    ):
        with proxy.connect(authority) as line:
            proxy.expects(line.answer, *malformed)
    for host in ("egress", "egress.test", "localhost", "control"):
        lab.dns.set(host, "127.0.0.1")
        proxy.expects(proxy.say(request(host, f"http://{host}/status")), UNKNOWN)
        proxy.expects(by_tunnel(proxy, host, 80), UNKNOWN)
        lab.dns.forget(host)


@case("S-49", "the proxy by way of itself", Harm.REACHED)
def test_the_proxy_by_way_of_itself(lab: Lab, proxy: Proxy) -> None:
    """A loop, or a second client with another address: by number, by name, and through a tunnel."""
    four, six = proxy.room.four, proxy.room.six
    for place in (
        "127.0.0.1:3128",
        "127.0.0.2:3128",
        "0.0.0.0:3128",
        f"{four}:3128",
        f"[{six}]:3128",
        "[::1]:3128",
    ):
        with proxy.connect(place) as line:
            proxy.expects(line.answer, LITERAL)
            if line.answer.status == 200:
                line.send(request(API, f"{API}:443", method="CONNECT")).finish()
        proxy.expects(proxy.say(request(place, f"http://{place}/")), LITERAL)
    for number, address in enumerate(("127.0.0.1", four, "::1")):
        name = f"loop-{number}-{proxy.name}.{ANY}"
        lab.dns.set(name, address)
        proxy.expects(by_tunnel(proxy, name, 3128), (403, "host.port"))
        proxy.expects(proxy.ask(name, request(name)), (403, "address.refused"))
    # A tunnel in a tunnel has the outer one's host alone.
    with proxy.tunnel(OTHER) as line:
        line.send(request("127.0.0.1:3128", "127.0.0.1:3128", method="CONNECT"))
        proxy.expects(line.response("CONNECT"), (421, "request.mismatch"))


@case(
    "S-49",
    "what listens in the room of the proxy",
    naive="its doors are the lab's own, and no fault of it",
    twin="test_what_listens_is_seen",
)
def test_what_listens_in_the_room_of_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """By default one port on loopback, and one socket with a path: none to administer it, or to debug it."""
    assert isinstance(proxy, Egress)
    assert proxy.process
    assert listening(lab, proxy) == [LISTEN]
    found = _table(lab, proxy, "unix")
    sockets = [line.rpartition(" ")[2] for line in found if " 00010000 " in line]
    assert sockets == [str(proxy.runtime / "control.sock")]
    assert not [line for line in found if line.rpartition(" ")[2].startswith("@")], "a socket without a path"
    # But for the one of the sniffer.
    assert len(_table(lab, proxy, "udp")) <= 1
    assert not _table(lab, proxy, "udp6")
    assert (proxy.runtime / "control.sock").stat().st_mode & 0o077 == 0
    assert proxy.runtime.stat().st_mode & 0o077 == 0


def test_what_listens_is_seen(lab: Lab, egress: Egress) -> None:
    """The good twin: a port that somebody else opens in that room shows."""
    with egress.room.listen("127.0.0.1", 4711):
        assert ("127.0.0.1", 4711) in listening(lab, egress)


def listening(lab: Lab, proxy: Proxy) -> list[tuple[str, int]]:
    """Every listener of IPv4 in the room; those of the lab itself are of IPv6, and answer both."""
    found = []
    for line in _table(lab, proxy, "tcp"):
        match = re.match(r"\s*\d+: ([0-9A-F]{8}):([0-9A-F]{4}) [0-9A-F]{8}:0000 0A ", line)
        if match:
            found.append((socket.inet_ntoa(bytes.fromhex(match[1])[::-1]), int(match[2], 16)))
    return sorted(found)


def _table(lab: Lab, proxy: Proxy, kind: str) -> list[str]:
    assert proxy.process
    text = lab.network.read(f"/proc/{proxy.process.pid}/net/{kind}").decode("latin-1")
    return [line.rstrip() for line in text.splitlines()[1:]]


# S-78: another user -------------------------------------------------------------------------------


@case("S-78", "another user of the machine at the port on loopback", Harm.SENT)
def test_another_user_of_the_machine_at_the_port_on_loopback(lab: Lab, proxy: Proxy) -> None:
    """Refused, and nothing that it said is done: by IPv4, by a mapped address, with a claim in a field."""
    if not lab.network.has_users:
        pytest.skip("takes root to become another user")
    claims = (
        "x: y",
        f"proxy-authorization: {basic('root', 'root')}",
        "x-forwarded-for: 127.0.0.1",
        "x-egress-sandbox: default",
    )
    for place in (LISTEN, ("::ffff:127.0.0.1", 3128)):
        for claim in claims:
            with proxy.dial(place, user=STRANGER) as line:
                answer = line.send(request(PLAIN, f"http://{PLAIN}/echo?stranger", claim)).response()
            proxy.expects(answer, (403, "proxy.identity"), (0, ""))
            with proxy.dial(place, user=STRANGER) as line:
                line.send(request(API, f"{API}:443", claim, method="CONNECT"))
                proxy.expects(line.response("CONNECT"), (403, "proxy.identity"), (0, ""))
        with proxy.dial(place) as line:
            line.send(request(PLAIN, f"http://{PLAIN}/echo?owner"))
            proxy.expects(line.response(), (200, ""))
    _expect_nothing_of_the_stranger(lab, proxy)


@case("S-78", "another user who is gone before anybody looks", Harm.SENT)
def test_another_user_who_is_gone_before_anybody_looks(lab: Lab, proxy: Proxy) -> None:
    """What remains of a socket belongs to nobody, or to root, as kernels see it; it counts for none."""
    if not lab.network.has_users:
        pytest.skip("takes root to become another user")
    # Stopped, so that it surely comes too late.
    proxy.signal(signal.SIGSTOP)
    try:
        for turn in range(9):
            with proxy.room.socket(socket.AF_INET, socket.SOCK_STREAM, user=STRANGER) as sock:
                sock.settimeout(10)
                sock.connect(LISTEN)
                proxy.clients.setdefault(sock.getsockname(), set()).add(LISTEN)
                sock.sendall(request(PLAIN, f"http://{PLAIN}/echo?stranger"))
                if turn % 3 == 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif turn % 3 == 1:
                    sock.shutdown(socket.SHUT_WR)
    finally:
        proxy.signal(signal.SIGCONT)
    lab.control(proxy)
    _expect_nothing_of_the_stranger(lab, proxy)


def _expect_nothing_of_the_stranger(lab: Lab, proxy: Proxy) -> None:
    if lab.sent(proxy, lab.internet.plain, lambda each: "stranger" in each.target):
        raise Finding(Harm.SENT, "another user was served")


# S-54: identities ---------------------------------------------------------------------------------

PASSWORD = secrets.token_hex(16)
RIGHT = f"proxy-authorization: {basic('sandbox', PASSWORD)}"


@contextmanager
def guarded(lab: Lab) -> Iterator[Egress]:
    """An Egress that asks for a password."""
    own = lab.make_egress("", "--password-file", "password")
    path = own.folder / "password"
    path.touch(mode=0o600)
    path.write_text(f"{PASSWORD}\n", encoding="ascii")
    try:
        own.start()
        lab.begin(own)
        yield own
    finally:
        own.close()


def wrong_ones() -> list[tuple[str, ...]]:
    """All but the right one, in one field or several."""

    def coded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    return [
        (),
        ("proxy-authorization: ",),
        ("proxy-authorization: Basic",),
        ("proxy-authorization: Basic !!!",),
        (f"proxy-authorization: {PASSWORD}",),
        (f"proxy-authorization: Bearer {PASSWORD}",),
        (f"proxy-authorization: Basic {PASSWORD}",),
        (f"proxy-authorization: Digest {coded(f'a:{PASSWORD}')}",),
        (f"authorization: {basic('a', PASSWORD)}",),
        (f"cookie: password={PASSWORD}",),
        (RIGHT.replace("-", "_", 1),),
        (RIGHT, RIGHT),
        (RIGHT, f"proxy-authorization: {basic('a', 'wrong')}"),
        (f"proxy-authorization: {basic('a', PASSWORD[:-1])}",),
        (f"proxy-authorization: {basic('a', PASSWORD + 'x')}",),
        (f"proxy-authorization: {basic('a', PASSWORD.upper() + chr(10))}",),
        (f"proxy-authorization: {basic(PASSWORD, '')}",),
        (f"proxy-authorization: Basic {coded(PASSWORD)}",),
        (f"proxy-authorization: Basic {coded(f'a:{PASSWORD}')}x",),
        (f"proxy-authorization: Basic {coded(f'a:{PASSWORD}')},Basic x",),
    ]


def ask(proxy: Proxy, host: str, *lines: str) -> tuple[int, str]:
    """Ask for a tunnel with these fields; status and code."""
    with proxy.connect(f"{host}:443", *lines) as line:
        return line.answer.status, line.answer.code


@case("S-54", "guessed identities", Harm.TAKEN)
def test_guessed_identities(lab: Lab, proxy: Proxy) -> None:
    """Without the password, and with every wrong one, nothing is even decided.

    Patience ends with the tenth, and from then on a right one cannot be told from a wrong one. A host that is
    denied is no way to learn whether a password was right.
    """
    if not isinstance(proxy, Egress):
        if ask(proxy, API, f"proxy-authorization: {basic('a', 'guess')}")[0] == 200:
            raise Finding(Harm.TAKEN, "whoever comes is the sandbox")
        return
    wanted, patience = (407, "proxy.authentication"), (429, "limit.requests")
    with guarded(lab) as own:
        assert ask(own, API, RIGHT) == (200, "")
        assert ask(own, API, RIGHT.replace("Basic", "bAsIc")) == (200, "")
        assert ask(own, EVIL) == wanted
        assert own.say(request(PLAIN, f"http://{PLAIN}/echo")).code == "proxy.authentication"
        for lines in wrong_ones():
            assert ask(own, API, *lines) in (wanted, patience, (400, "request.malformed")), lines
        guesses = (f"proxy-authorization: {basic('a', secrets.token_hex(16))}" for _ in range(15))
        found = [ask(own, host, guess) for guess, host in zip(guesses, (API, EVIL) * 8, strict=False)]
        assert {*found} <= {wanted, patience}
        assert found[-1] == patience
        assert not [each for each in lab.opened(own) if each.source not in own.clients]
        must_be_none(lab.at_the_end(own))
        said = own.said + str(own.records())
    assert PASSWORD not in said
    assert RIGHT.rpartition(" ")[2] not in said
