"""Who is who: passwords, other users of the machine, and sandboxes side by side.

Several sandboxes behind one proxy share a process and nothing else: not what they hold, not what they trust,
not what they may use up, and not their end.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.attack.lab import harm
from tests.attack.lab.added_sandbox import add_box, boxes, control, hand_over
from tests.attack.lab.cases import case
from tests.attack.lab.client import PATIENCE, Answer, Line, basic, request
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, EVIL, OTHER, PLAIN, STANDIN, Credential
from tests.attack.lab.proxies import LISTEN, Egress, Proxy
from tests.cli.command import put
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.raw_upstream import Say, Stall
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

PASSWORD = "open-sesame-open-sesame-42"
MOST = 40
"""Connections of one sandbox at a time, in this file."""


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One to which sandboxes can be added, with narrow bounds for each of them."""
    narrow = f"{OTHER}: {{allow: all, limits: {{requests: 3/hour}}}}"
    text = lab.rules().replace(f"{OTHER}: {{allow: all}}", narrow)
    assert narrow in text
    with lab.egress(text, "--handover", "--sandbox-connections", str(MOST)) as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


# Passwords --------------------------------------------------------------------------------------


@contextmanager
def guarded(lab: Lab, proxy: Proxy) -> Iterator[Proxy]:
    """An Egress that asks for a password, looked through at its end; the naive proxy never heard of any."""
    if not isinstance(proxy, Egress):
        yield proxy
        return
    made = lab.make_egress("", "--password-file", "password")
    put(made.folder / "password", PASSWORD + "\n").chmod(0o600)
    try:
        lab.begin(made.start())
        yield made
        password = Credential("the password", PASSWORD.encode(), ())
        written = [(place, data) for place, data in lab.written(made) if place != "password"]
        for finding in (*lab.at_the_end(made), *harm.logged(written, [password])):
            raise finding
    finally:
        made.close()


def knock(proxy: Proxy, *fields: str) -> Answer:
    """Ask for a tunnel to the api, and for the page behind it where there is one."""
    with proxy.connect(f"{API}:443", *fields) as line:
        if line.answer.status != 200 or not line.to_tls(proxy.ca_pem, API):
            return line.answer
        return line.send(request(API, "/small")).response()


def credentials(*passwords: str) -> list[str]:
    return [f"proxy-authorization: {basic('any', password)}" for password in passwords]


RIGHT = credentials(PASSWORD)[0]
WRONG: dict[str, list[str]] = {
    "none": [],
    "another": credentials("open-sesame-open-sesame-43"),
    "its beginning": credentials(PASSWORD[:-1]),
    "more than it": credentials(PASSWORD + "\n"),
    "nothing": credentials(""),
    "it, twice": [RIGHT, RIGHT],
    "it, behind a wrong one": credentials("x", PASSWORD),
    "it, in the field for hosts": [RIGHT.replace("proxy-", "")],
    "it, in a field that is only alike": [RIGHT.replace("-", "_", 1)],
    "it, as the user": [f"proxy-authorization: {basic(PASSWORD, '')}"],
    "it, by another scheme": [f"proxy-authorization: Bearer {PASSWORD}"],
    "it, as it is": [f"proxy-authorization: {PASSWORD}"],
}


@case("S-54", "passwords that are not the right one", Harm.TAKEN)
def test_passwords_that_are_not_the_right_one(lab: Lab, proxy: Proxy) -> None:
    """Not served, slowed down after some, recorded; and the right one is found nowhere afterwards."""
    refused = ((407, "proxy.authentication"), (429, "limit.requests"))
    with guarded(lab, proxy) as own:
        for what, fields in WRONG.items():
            answer = knock(own, *fields)
            own.expects(answer, *refused)
            own.expects(own.say(request(PLAIN, f"http://{PLAIN}/echo", *fields)), *refused)
            if answer.status == 200:
                raise Finding(Harm.TAKEN, f"served with {what}")
        in_the_address = request(PLAIN, f"http://any:{PASSWORD}@{PLAIN}/echo")
        own.expects(own.say(in_the_address), *refused, (400, "request.malformed"))
        assert isinstance(own, Egress)
        told = until(lambda: _told(own, 2 * len(WRONG) + 1), "a line, or a part of one, for each of them")
        assert {"proxy.authentication", "limit.requests"} <= told
        until(lambda: knock(own, RIGHT).status == 200, "patience with the right password")
        heads = [each.raw.lower() for each in lab.requests(own, lab.api)]
        assert len(heads) == 1
        assert b"proxy-" not in heads[0]


def _told(proxy: Egress, count: int) -> set[object]:
    """The codes of all refusals, once there are so many; those beyond 20 in a second are counted."""
    lines = proxy.records("refusal")
    folded = proxy.records("folded")
    if len(lines) + sum(int(str(line["count"])) for line in folded) != count:
        return set()
    return {line["code"] for line in (*lines, *folded)}


@case("S-54", "a password that travels on", Harm.STOLEN)
def test_a_password_that_travels_on(lab: Lab, proxy: Proxy) -> None:
    """Neither to a host in clear text, nor inside of a tunnel, where the client says it once more."""
    with guarded(lab, proxy) as own:
        until(lambda: own.say(request(PLAIN, f"http://{PLAIN}/echo", RIGHT)).status == 200, "the page")
        with own.connect(f"{OTHER}:443", RIGHT) as line:
            assert line.to_tls(own.ca_pem, OTHER)
            for fields in ([RIGHT], [RIGHT, "connection: proxy-authorization"]):
                assert line.send(request(OTHER, "/echo", *fields)).response().status == 200
        value = RIGHT.partition(": ")[2].encode()
        if value in lab.heard(own, PLAIN, OTHER):
            raise Finding(Harm.STOLEN, "hosts got the password of the proxy")


# Other users ------------------------------------------------------------------------------------

STRANGER = 1000
ADDRESSES_OF_THE_LISTENER = (LISTEN, ("::ffff:127.0.0.1", LISTEN[1]))


@case("S-78", "another user of the machine", Harm.TAKEN)
def test_another_user_of_the_machine(lab: Lab, proxy: Proxy) -> None:
    """However it dials, whatever it claims, and also when it is gone before anybody asks whose it was."""
    if not lab.network.has_users:
        pytest.skip("only root can have other users")
    refused = (403, "proxy.identity")
    claims = ("proxy-authorization: Basic cm9vdDpyb290", "forwarded: for=127.0.0.1", "x-remote-user: root")
    for place in ADDRESSES_OF_THE_LISTENER:
        with proxy.dial(place, user=STRANGER) as line:
            asked = request(f"{API}:443", f"{API}:443", *claims, method="CONNECT")
            proxy.expects(line.send(asked).response("CONNECT"), refused)
    target = f"http://{PLAIN}/echo?by=a-stranger"
    for leave in (_read, _half_close, _close, _reset):
        for _ in range(5):
            with proxy.dial(user=STRANGER) as line:
                leave(line.send(request(PLAIN, target)))
    if lab.sent(proxy, lab.internet.plain):
        raise Finding(Harm.TAKEN, "a request of another user was sent")
    if isinstance(proxy, Egress):
        assert proxy.say(request(PLAIN, target)).status == 200, "its own user is served"


def _read(line: Line) -> None:
    line.response()


def _half_close(line: Line) -> None:
    line.finish().everything()


def _close(line: Line) -> None:
    line.close()


def _reset(line: Line) -> None:
    line._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


# Sandboxes side by side: what they hold -----------------------------------------------------------


@case("S-05", "a stand-in of a neighbour", Harm.TAKEN)
def test_a_stand_in_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """It is swapped for the one that it was given to; for another it is any text. So is a name it claims."""
    with boxes(lab, proxy, "one", "two") as (one, two):
        assert _swapped(lab, proxy, one, one.stand_in())
        before = one.stand_in()
        claims = ("x-sandbox: one", "egress-sandbox: one", "forwarded: for=one", "from: one")
        for thief in (two, proxy):
            if _swapped(lab, proxy, thief, one.stand_in(), *claims):
                raise Finding(Harm.TAKEN, f"{thief.name} has used what one was given")
    # A later sandbox of the same name is another one.
    with boxes(lab, proxy, "one") as (later,):
        assert not _swapped(lab, proxy, later, before)
        assert _swapped(lab, proxy, later, later.stand_in())
    assert isinstance(proxy, Egress)
    lines = [line for line in proxy.recorded("exchange") if line["host"] == STANDIN][-5:]
    assert [line["sandbox"] for line in lines] == ["one", "two", "default", "one", "one"]
    assert [bool(line["injected"]) for line in lines] == [True, False, False, False, True]


def _swapped(lab: Lab, proxy: Proxy, box: Proxy, stand_in: str, *fields: str) -> bool:
    """Whether the host got the secret for this stand-in."""
    known = len(lab.requests(proxy, lab.site(STANDIN)))
    asked = request(STANDIN, "/status?code=200", f"x-api-key: {stand_in}", *fields)
    assert box.ask(STANDIN, asked).status == 200
    found = lab.wait(proxy, lambda: lab.requests(proxy, lab.site(STANDIN))[known:])
    return lab.secrets.other.value in found[-1].raw


@case("S-42", "the authority of a neighbour", Harm.TAKEN)
def test_the_authority_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """What one trusts is nothing to another, nor to a later one of the same name."""
    with boxes(lab, proxy, "one", "two") as (one, two):
        holders = {"one": one, "two": two, "default": proxy}
        for shown, each in holders.items():
            for trusted, other in holders.items():
                if (shown == trusted) != _believes(each, other.ca_pem):
                    raise Finding(Harm.TAKEN, f"{trusted} believes the host of {shown}")
        before = one.ca_pem
    with boxes(lab, proxy, "one") as (later,):
        assert not _believes(later, before)
        assert _believes(later, later.ca_pem)


def _believes(box: Proxy, ca_pem: bytes) -> bool:
    with box.connect(f"{API}:443") as line:
        return line.to_tls(ca_pem, API)


@case("S-42", "a TLS session of a neighbour", Harm.TAKEN)
def test_a_tls_session_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """Taken up again it would vouch for whoever shows it, without any certificate."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with boxes(lab, proxy, "one", "two") as (one, two):
            context = trusting(one.ca_pem, ("http/1.1",))
            context.maximum_version = version
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            session, _ = _shaken(one, context, None)
            assert _shaken(one, context, session)[1], "a session of its own is good"
            for thief in (two, proxy):
                if _shaken(thief, context, session)[1]:
                    raise Finding(Harm.TAKEN, "a session of one is good for another")
        with boxes(lab, proxy, "one") as (later,):
            assert not _shaken(later, context, session)[1]


def _shaken(
    box: Proxy, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Shake hands with a session in hand: the session that came of it, and whether the old one was taken."""
    with box.connect(f"{API}:443") as line:
        assert line.to_tls(b"", API, context=context, verify=False, session=session), line.failure
        # Tickets come with the first answer.
        assert line.send(request(API, "/small")).response().status == 200
        return line.session, line.is_resumed


NO_POOL = "it opens a connection of its own for every client, and resumes nothing"


@case(
    "S-42", "upstream connections of a neighbour", naive=NO_POOL, twin="test_an_upstream_sees_who_comes_back"
)
def test_upstream_connections_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """A host cannot tell two sandboxes together: they share neither a connection nor a session of TLS."""
    with boxes(lab, proxy, "one", "two") as (one, two):
        with one.tunnel(API) as first, two.tunnel(API) as second:
            for line in (first, second, first, second):
                assert line.send(request(API, "/small")).response().status == 200
        found = lab.connections(proxy, API)
        assert len(found) == 2
        assert [each.channel.tls.session_reused for each in found if each.channel.tls] == [False, False]


def test_an_upstream_sees_who_comes_back(lab: Lab, egress: Egress) -> None:
    """One sandbox does share them with itself: so it would show, if two did."""
    with boxes(lab, egress, "one") as (one,):
        lab.begin(egress)
        for _ in range(2):
            with one.tunnel(API) as line:
                for _ in range(2):
                    assert line.send(request(API, "/small")).response().status == 200
        found = lab.connections(egress, API)
    assert [each.channel.tls.session_reused for each in found if each.channel.tls] == [False, True]


# What they may use up ---------------------------------------------------------------------------


@case("S-65", "all connections that there are, for one", Harm.STARVED)
def test_all_connections_that_there_are_for_one(lab: Lab, proxy: Proxy) -> None:
    """It gets its share, and is told; the neighbours are served as before, and it as well, in the end."""
    with boxes(lab, proxy, "greedy", "modest") as (greedy, modest):
        lines = [greedy.connect(f"{OTHER}:443") for _ in range(MOST)]
        assert {line.answer.status for line in lines} == {200}
        answers = [_ask_for_a_tunnel(greedy) for _ in range(5)]
        if any(answer.status == 200 for answer in answers):
            raise Finding(Harm.STARVED, f"one sandbox has more than {MOST} connections")
        for answer in answers:
            proxy.expects(answer, (429, "limit.connections"))
        for other in (modest, proxy):
            assert other.ask(API, request(API, "/small")).status == 200
        lines.pop().close()
        until(lambda: _ask_for_a_tunnel(greedy).status == 200, "the place that has become free")


def _ask_for_a_tunnel(box: Proxy) -> Answer:
    with box.connect(f"{OTHER}:443") as line:
        return line.answer


@case("S-64", "the rate of requests of a neighbour", Harm.STARVED)
def test_the_rate_of_requests_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """Three an hour: for each, and not for all of them together."""
    with boxes(lab, proxy, "greedy", "modest") as (greedy, modest):
        for box in (greedy, modest):
            for _ in range(3):
                assert box.ask(OTHER, request(OTHER, "/small")).status == 401, "its own page for strangers"
            answer = box.ask(OTHER, request(OTHER, "/small"))
            proxy.expects(answer, (429, "limit.requests"))
            if answer.status == 401:
                raise Finding(Harm.STARVED, "a fourth request was sent")
            assert answer.header("retry-after")


# Their end --------------------------------------------------------------------------------------


ANOTHER_LISTENER = ("127.0.0.1", 3333)


def _stream(box: Proxy) -> Line:
    """Something that goes on for ever."""
    line = box.tunnel(API)
    assert line.send(request(API, "/never-ends")).head().status == 200
    return line


@case("S-80", "the end of a neighbour", Harm.OPEN, also=(ANOTHER_LISTENER,))
def test_the_end_of_a_neighbour(lab: Lab, proxy: Proxy) -> None:
    """A kill takes what the one has, and a removal too; the others do not notice."""
    lab.api.script("/never-ends", Say(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nand"), Stall())
    for end in (_kill, _remove):
        with boxes(lab, proxy, "two") as (two,):
            one = add_box(lab, proxy, "one") if isinstance(proxy, Egress) else two
            lines = [_stream(box) for box in (one, two, proxy)]
            end(proxy, "one")
            if not _has_ended(lines[0], 0.2 if proxy.patience else PATIENCE):
                raise Finding(Harm.OPEN, "a stream of what was killed goes on")
            for line, box in zip(lines[1:], (two, proxy), strict=True):
                assert not _has_ended(line, 0.05)
                assert box.ask(API, request(API, "/small")).status == 200
            with pytest.raises(OSError, match="refused"):
                one.dial()
            _forget(proxy, "one")


def _has_ended(line: Line, patience: float) -> bool:
    """Whether the other side closes within so many seconds."""
    line._sock.settimeout(patience)
    line.everything()
    return line.ended


def _kill(proxy: Proxy, name: str) -> None:
    if isinstance(proxy, Egress):
        status, told = control(proxy, "POST", "/kill", name=name)
        assert (status, told["connections"]) == (200, 1)
        message: dict[str, object] = {"sandbox": name, "kind": "proxy", "port": 3128, "name": "again"}
        with proxy.room.listen(*ANOTHER_LISTENER) as sock:
            # It is kept for the time after an undo, and refuses meanwhile.
            assert hand_over(proxy, message, sock)["ok"]
            with pytest.raises(ConnectionRefusedError):
                proxy.dial(ANOTHER_LISTENER)


def _remove(proxy: Proxy, name: str) -> None:
    if isinstance(proxy, Egress):
        assert control(proxy, "DELETE", f"/sandboxes/{name}") == (200, {"name": name, "connections": 1})


def _forget(proxy: Proxy, name: str) -> None:
    if isinstance(proxy, Egress):
        control(proxy, "POST", "/kill", name=name, undo=True)
        control(proxy, "DELETE", f"/sandboxes/{name}")


# A stolen key -----------------------------------------------------------------------------------


@case("S-43", "a stolen key of an authority", Harm.TAKEN)
def test_a_stolen_key_of_an_authority(lab: Lab, proxy: Proxy) -> None:
    """With `--ca-constrain` whoever has it can be a host that the rules name, and nobody else."""
    if isinstance(proxy, Egress):
        with lab.egress("", "--ca-constrain") as own:
            certificate, key = own.ca_pem, (own.state / "ca/default.pem").read_bytes()
            lab.hold(own)
    else:
        certificate, key = proxy.ca_pem, (proxy.folder / "naive-ca.key").read_bytes()
    thief = Forger(certificate, key, lab.folder)
    assert thief.passes_for(API), "a host of the rules"
    for name in (EVIL, f"{API}.{EVIL}", "good.test", "bank.example.com"):
        for within in (False, True):
            if thief.passes_for(name, below_another=within):
                raise Finding(Harm.TAKEN, f"whoever has the key is {name}")


class Forger:
    """Somebody who has the key of an authority."""

    def __init__(self, certificate_pem: bytes, key_pem: bytes, folder: Path) -> None:
        self.certificate = certificate_pem
        self.issuer = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.key = key
        self.folder = folder

    def passes_for(self, name: str, *, below_another: bool = False) -> bool:
        """Whether a client that trusts the authority takes us for this host."""
        chain, issuer, key = b"", self.issuer.subject, self.key
        if below_another:
            # An authority of our own below it, which nobody has limited.
            issuer, key = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody's limits")]), _new_key()
            chain = self._signed(issuer, key, x509.BasicConstraints(ca=True, path_length=None))
        mine = _new_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        leaf = self._signed(subject, mine, names, by=(issuer, key))
        return _shake_hands(self._server(leaf + chain, mine), trusting(self.certificate), name)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        by: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    ) -> bytes:
        issuer, signer = by or (self.issuer.subject, self.key)
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        begin, end = self.issuer.not_valid_before_utc, self.issuer.not_valid_after_utc
        for each in (extension, x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())):
            builder = builder.add_extension(each, critical=isinstance(each, x509.BasicConstraints))
        signed = builder.not_valid_before(begin).not_valid_after(end).sign(signer, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    def _server(self, chain: bytes, key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
        pkcs8 = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = self.folder / "forged.pem"
        path.write_bytes(chain + key.private_bytes(*pkcs8))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """Whether the client is content; in memory, without a wire."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True
