"""The TLS add-on, on mitmproxy's own layers: what begins, what does not, and what is told of it."""

from __future__ import annotations

import base64
import gc
import ssl
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
import trustme
from mitmproxy import connection
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.tls import ServerTLSLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import ClientHello, ClientHelloData, TlsData
from OpenSSL import SSL

from egress.addons.tls_hooks import TlsHooks
from egress.addons.tls_layers import SandboxTlsLayer
from egress.ca import Authority, Constraints
from egress.errors import WireError
from egress.tls.client_hello import HelloReader
from egress.tls.contexts import UpstreamContexts
from egress.tls.verification import HandshakeRefusal, TlsTerms, UpstreamProof
from tests.addons.handshake import Issuer, asking, serving, today, upstream, visiting

HOST = "api.example.com"
H1, H2 = b"http/1.1", b"h2"
ANY_PIN = "sha256/" + base64.b64encode(bytes(32)).decode()


@dataclass
class Clock:
    start: int
    seconds: float = 0.0

    def now(self) -> int:
        return self.start + int(self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class World:
    """One client of one sandbox, the add-on that serves it, and what the add-on told."""

    ca: trustme.CA
    terms: TlsTerms | None
    clock: Clock
    told: list[HandshakeRefusal | UpstreamProof] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        root = ssl.PEM_cert_to_DER_cert(self.ca.cert_pem.bytes().decode())
        self.addon = TlsHooks(
            lambda _client: self.terms,
            lambda _client, what: self.told.append(what),
            UpstreamContexts([root]),
            self.clock,
        )

    def context(self, **server: object) -> Context:
        client = Client(peername=("192.0.2.1", 1), sockname=("192.0.2.2", 2), state=ConnectionState.OPEN)
        context = Context(client, Options())
        context.server = Server(address=(HOST, 443), **server)  # type: ignore[arg-type]
        context.server.state = ConnectionState.OPEN
        context.layers = [layer.NextLayer(context)]
        return context


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("one", today())


@pytest.fixture
def world(ca: trustme.CA, authority: Authority) -> World:
    return World(ca, TlsTerms("one", authority, HOST, 443, (H1,), (H1,)), Clock(today()))


class Wire:
    """A peer on one end, one of mitmproxy's TLS layers with the add-on on the other."""

    def __init__(
        self, world: World, top: layer.Layer, ours: connection.Connection, peer: SSL.Connection
    ) -> None:
        self.world, self.top, self.ours, self.peer = world, top, ours, peer
        self.is_closed = False
        self.hooks: list[str] = []
        self.error: SSL.Error | None = None

    def run(self) -> Wire:
        self.feed(events.Start())
        for _ in range(8):
            self.turn()
        return self

    def turn(self) -> None:
        """Let the peer go on, and carry what it says."""
        if self.error is None:
            try:
                self.peer.do_handshake()
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                self.error = error
        try:
            data = self.peer.bio_read(1 << 20)
        except SSL.WantReadError:
            return
        if not self.is_closed:
            self.feed(events.DataReceived(self.ours, data))

    def feed(self, event: events.Event) -> None:
        for command in self.top.handle_event(event):
            self.obey(command)

    def obey(self, command: commands.Command) -> None:
        if isinstance(command, commands.StartHook):
            self.hooks.append(command.name)
            hook = getattr(self.world.addon, command.name, None)
            if hook is not None:
                hook(*command.args())
            self.feed(events.HookCompleted(command, None))
        elif isinstance(command, commands.SendData):
            self.peer.bio_write(command.data)
        elif isinstance(command, commands.CloseConnection):
            self.is_closed = True
            command.connection.state = ConnectionState.CLOSED
        elif isinstance(command, commands.Log):
            self.world.logged.append(command.message)


def client_wire(world: World, peer: SSL.Connection) -> Wire:
    context = world.context()
    return Wire(world, SandboxTlsLayer(context), context.client, peer)


def server_wire(world: World, peer: SSL.Context, **server: object) -> Wire:
    context = world.context(**server)
    return Wire(world, ServerTLSLayer(context), context.server, serving(peer))


def visitor(world: World, name: str | None = HOST, alpn: tuple[bytes, ...] = (H1,)) -> SSL.Connection:
    assert world.terms is not None
    return asking(visiting(world.terms.authority.certificate_pem, alpn=alpn), name)


# Towards the client ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [HOST, "API.Example.com", "api.example.com.", None])
def test_a_client_that_names_the_destination_or_nothing_is_served(name: str | None, world: World) -> None:
    peer = visitor(world, name)
    wire = client_wire(world, peer).run()
    assert wire.error is None
    assert not wire.is_closed
    assert "tls_established_client" in wire.hooks
    assert peer.get_alpn_proto_negotiated() == H1
    assert world.told == []


@pytest.mark.parametrize(
    "name",
    [
        "other.example.com",
        "example.com",
        "api.example.com.evil.example",
        "xapi.example.com",
        "a_b",
    ],
)
def test_a_client_that_names_another_host_is_closed(name: str, world: World) -> None:
    wire = client_wire(world, visitor(world, name)).run()
    assert wire.is_closed
    assert "tls_established_client" not in wire.hooks
    assert [what.code for what in world.told if isinstance(what, HandshakeRefusal)] == ["request.mismatch"]
    assert all(name not in text for text in (str(world.told),))


def hello_of(peer: SSL.Connection) -> bytes:
    """The message without the header of its record and its own."""
    with pytest.raises(SSL.WantReadError):
        peer.do_handshake()
    return peer.bio_read(1 << 16)[9:]


def told(context: Context, message: bytes) -> ClientHelloData:
    """What the TLS layer tells the hook of this message; raises `WireError` where it does not get so far."""
    whole = b"\x01" + len(message).to_bytes(3) + message
    hello = HelloReader().feed(b"\x16\x03\x01" + len(whole).to_bytes(2) + whole)
    return ClientHelloData(context, cast("ClientHello", hello))


def name_field(*hosts: bytes) -> bytes:
    names = b"".join(b"\0" + len(host).to_bytes(2) + host for host in hosts)
    body = len(names).to_bytes(2) + names
    return b"\0\0" + len(body).to_bytes(2) + body


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        (name_field(HOST.encode()), True),
        (b"", True),
        (name_field(HOST.encode(), b"evil.example.com"), False),
        (name_field(b"evil.example.com", HOST.encode()), False),
        (name_field(HOST.encode()) + name_field(HOST.encode()), False),
        (name_field(HOST.encode()) + name_field(b"evil.example.com"), False),
        (name_field(HOST.encode() + b"\0.evil.example.com"), False),
        (name_field(b""), False),
        (name_field("äpi.example.com".encode()), False),
        (name_field(b"evil\xff"), False),
        (name_field(b"192.0.2.9"), False),
    ],
)
def test_a_name_that_cannot_be_read_is_not_a_missing_one(fields: bytes, good: bool, world: World) -> None:
    plain = hello_of(visitor(world, None))
    # After version, random, session, suites and compression come the fields, behind their length.
    at = 34 + 1 + plain[34]
    at += 2 + int.from_bytes(plain[at : at + 2])
    at += 1 + plain[at]
    rest = plain[at + 2 :] + fields
    context = world.context()
    with nullcontext() if good else pytest.raises(WireError):
        world.addon.tls_clienthello(told(context, plain[:at] + len(rest).to_bytes(2) + rest))
    data = TlsData(context.client, context)
    world.addon.tls_start_client(data)
    assert (data.ssl_conn is not None) is good


def test_an_address_as_destination_is_served_without_a_name(world: World) -> None:
    assert world.terms is not None
    world.terms = replace(world.terms, host="192.0.2.7")
    wire = client_wire(world, visitor(world, None)).run()
    assert "tls_established_client" in wire.hooks


def test_without_terms_nothing_begins(world: World) -> None:
    peer = visitor(world)
    world.terms = None
    wire = client_wire(world, peer).run()
    assert wire.is_closed
    context = world.context()
    data = TlsData(context.server, context)
    world.addon.tls_start_server(data)
    assert data.ssl_conn is None


def test_without_an_accepted_hello_nothing_begins_and_one_begins_once(world: World) -> None:
    context = world.context()
    first = TlsData(context.client, context)
    world.addon.tls_start_client(first)
    assert first.ssl_conn is None
    world.addon.tls_clienthello(told(context, hello_of(visitor(world))))
    second, third = TlsData(context.client, context), TlsData(context.client, context)
    world.addon.tls_start_client(second)
    world.addon.tls_start_client(third)
    assert second.ssl_conn is not None
    assert third.ssl_conn is None


def test_a_failing_look_up_ends_in_no_connection(world: World) -> None:
    """After an exception in a hook mitmproxy goes on: what another add-on has set must not remain."""
    context = world.context()
    set_before = SSL.Connection(SSL.Context(SSL.TLS_METHOD), None)

    def fail(_client: Client) -> TlsTerms:
        raise KeyError

    world.addon._about = fail
    world.addon._greeted.add(context.client)
    for hook, conn in (
        (world.addon.tls_start_client, context.client),
        (world.addon.tls_start_server, context.server),
    ):
        data = TlsData(conn, context, set_before)
        with pytest.raises(KeyError):
            hook(data)
        assert data.ssl_conn is None


def test_nothing_is_passed_through_unread(world: World) -> None:
    context = world.context()
    data = told(context, hello_of(visitor(world)))
    data.ignore_connection = data.establish_server_tls_first = True
    world.addon.tls_clienthello(data)
    assert not data.ignore_connection
    assert not data.establish_server_tls_first


def test_datagrams_are_not_served(world: World) -> None:
    context = world.context()
    world.addon._greeted.add(context.client)
    for conn in (context.client, context.server):
        data = TlsData(conn, context, is_dtls=True)
        world.addon.tls_start_client(data)
        world.addon.tls_start_server(data)
        assert data.ssl_conn is None


def test_a_host_the_authority_may_not_sign_for_is_told_to_the_operator(world: World) -> None:
    assert world.terms is not None
    narrow = Authority.create("narrow", today(), Constraints.of(["b.example.com"]))
    world.terms = replace(world.terms, authority=narrow)
    wire = client_wire(world, visitor(world)).run()
    assert wire.is_closed
    (told,) = world.told
    assert isinstance(told, HandshakeRefusal)
    assert "is not permitted to sign for" in told.reason


# Towards the upstream -------------------------------------------------------------------------


def test_an_upstream_that_is_the_destination_is_proven(world: World) -> None:
    wire = server_wire(world, upstream(world.ca.issue_cert(HOST), alpn=(H2, H1))).run()
    assert isinstance(wire.ours, Server)
    (proof,) = world.told
    assert isinstance(proof, UpstreamProof)
    assert (proof.version, proof.alpn, proof.resumed) == ("TLSv1.3", H1, False)
    assert world.addon.proof(wire.ours) == proof
    assert wire.ours.sni == HOST


def test_the_name_is_that_of_the_destination_whatever_the_client_named(world: World) -> None:
    context = world.context(sni="evil.example.com")
    context.client.sni = "evil.example.com"
    wire = Wire(world, ServerTLSLayer(context), context.server, serving(upstream(world.ca.issue_cert(HOST))))
    wire.run()
    assert wire.peer.get_servername() == HOST.encode()
    assert isinstance(world.told[0], UpstreamProof)


@pytest.mark.parametrize(
    ("asked", "offered"), [((H1,), H1), ((), H2), ((H2, H1), H2), ((b"h3",), H2), ((H1, b"h3"), H2)]
)
def test_a_layer_may_ask_for_less_than_the_terms_allow_and_never_for_more(
    asked: tuple[bytes, ...], offered: bytes, world: World
) -> None:
    assert world.terms is not None
    world.terms = replace(world.terms, upstream_alpn=(H2, H1))
    peer = upstream(world.ca.issue_cert(HOST), alpn=(b"h3", H2, H1))
    server_wire(world, peer, alpn_offers=asked).run()
    (proof,) = world.told
    assert isinstance(proof, UpstreamProof)
    assert proof.alpn == offered


def cases(now: int) -> Iterator[tuple[str, World, SSL.Context, str]]:
    """Upstreams that must not be believed; each with what the operator reads."""
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority = Authority.create("one", now)
    world = World(ca, TlsTerms("one", authority, HOST, 443, (H1,), (H1,)), Clock(now))
    yield "wrong name", world, upstream(ca.issue_cert("other.example.com")), "hostname mismatch"
    yield (
        "unknown CA",
        world,
        upstream(trustme.CA().issue_cert(HOST)),
        "unable to get local issuer certificate",
    )
    pinned = World(ca, TlsTerms("one", authority, HOST, 443, (H1,), (H1,), frozenset({ANY_PIN})), Clock(now))
    yield "pin", pinned, upstream(ca.issue_cert(HOST)), "no key in the verified chain"


@pytest.mark.parametrize("number", range(3))
def test_an_upstream_that_is_not_proven_fails_and_the_reason_is_told(number: int) -> None:
    name, world, peer, reason = list(cases(today()))[number]
    wire = server_wire(world, peer).run()
    assert isinstance(wire.ours, Server)
    assert wire.ours.error, name
    assert "tls_established_server" not in wire.hooks
    assert world.addon.proof(wire.ours) is None
    (told,) = world.told
    assert isinstance(told, HandshakeRefusal)
    assert told.code == "upstream.tls"
    assert reason in told.reason


def test_an_expired_upstream_is_told_as_such(world: World) -> None:
    issuer = Issuer(today() - 86400 * 3)
    world.addon._upstream = UpstreamContexts([issuer.der])
    wire = server_wire(world, issuer.context(HOST)).run()
    assert isinstance(wire.ours, Server)
    assert wire.ours.error
    assert world.told == [HandshakeRefusal("upstream.tls", "certificate has expired")]


@pytest.mark.parametrize("named", [HOST, "other.example.com"])
def test_no_option_of_mitmproxy_turns_verification_off(named: str, world: World) -> None:
    """The start is refused with it, too; here nobody asks."""
    context = world.context()
    context.options.update(ssl_insecure=True)  # type: ignore[no-untyped-call]
    peer = serving(upstream(world.ca.issue_cert(named)))
    Wire(world, ServerTLSLayer(context), context.server, peer).run()
    assert (world.addon.proof(context.server) is not None) is (named == HOST)


def test_a_peer_that_speaks_no_tls_is_told(world: World) -> None:
    wire = server_wire(world, upstream(world.ca.issue_cert(HOST)))
    wire.feed(events.Start())
    wire.feed(events.DataReceived(wire.ours, b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert world.told == [HandshakeRefusal("upstream.tls", "the TLS handshake with the upstream failed")]


def test_another_server_or_a_proxy_on_the_way_is_never_spoken_to(world: World) -> None:
    context = world.context()
    stranger = TlsData(Server(address=("b.example.com", 443)), context)
    world.addon.tls_start_server(stranger)
    assert stranger.ssl_conn is None
    context = world.context(via=("https", ("proxy.example.com", 3128)))
    data = TlsData(context.server, context)
    world.addon.tls_start_server(data)
    assert data.ssl_conn is None


def test_a_handshake_that_ended_without_a_proof_is_made_unusable(world: World) -> None:
    """OpenSSL does not let it come to this; should it ever, nothing can be sent."""
    context = world.context()
    data = TlsData(context.server, context)
    world.addon.tls_start_server(data)
    assert data.ssl_conn is not None
    world.addon.tls_established_server(data)
    assert world.addon.proof(context.server) is None
    assert world.told == [HandshakeRefusal("upstream.tls", "the upstream was not verified")]
    with pytest.raises(SSL.Error):
        data.ssl_conn.sendall(b"secret")


def test_a_connection_that_is_not_the_one_that_was_begun_is_not_proven(world: World) -> None:
    wire = server_wire(world, upstream(world.ca.issue_cert(HOST))).run()
    assert isinstance(wire.ours, Server)
    other = server_wire(world, upstream(world.ca.issue_cert(HOST))).run()
    assert isinstance(other.top, ServerTLSLayer)
    world.addon.tls_established_server(TlsData(wire.ours, wire.top.context, other.top.tls))
    assert world.addon.proof(wire.ours) is None


# Sessions -------------------------------------------------------------------------------------


def visit(world: World, peer: SSL.Context) -> UpstreamProof:
    """One upstream connection from its beginning to its end."""
    wire = server_wire(world, peer).run()
    assert isinstance(wire.ours, Server)
    proof = world.addon.proof(wire.ours)
    assert proof is not None, world.told
    wire.turn()
    world.addon.server_disconnected(ServerConnectionHookData(wire.ours, wire.top.context.client))
    assert world.addon.proof(wire.ours) is None
    del wire
    gc.collect()
    return proof


def test_a_second_connection_of_a_sandbox_resumes_and_another_sandbox_does_not(world: World) -> None:
    peer = upstream(world.ca.issue_cert(HOST))
    assert [visit(world, peer).resumed for _ in range(3)] == [False, True, True]
    assert world.terms is not None
    world.terms = replace(world.terms, sandbox="two")
    assert not visit(world, peer).resumed
    world.terms = replace(world.terms, sandbox="one", pins=frozenset())
    world.addon.forget("one")
    assert not visit(world, peer).resumed


def test_resuming_does_not_prolong_a_verification(world: World) -> None:
    peer = upstream(world.ca.issue_cert(HOST))
    assert not visit(world, peer).resumed
    world.clock.seconds = 2000.0
    assert visit(world, peer).resumed
    world.clock.seconds = 3700.0
    assert not visit(world, peer).resumed, "verified an hour ago"
    assert visit(world, peer).resumed


def test_pins_that_were_added_are_checked_and_not_resumed_past(world: World) -> None:
    peer = upstream(world.ca.issue_cert(HOST))
    visit(world, peer)
    assert world.terms is not None
    world.terms = replace(world.terms, pins=frozenset({ANY_PIN}))
    wire = server_wire(world, peer).run()
    assert isinstance(wire.ours, Server)
    assert world.addon.proof(wire.ours) is None


def test_what_failed_leaves_no_session(world: World) -> None:
    server_wire(world, upstream(world.ca.issue_cert("other.example.com"))).run()
    assert len(world.addon._begun) == 0
    assert not visit(world, upstream(world.ca.issue_cert(HOST))).resumed
