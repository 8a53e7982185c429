"""TLS as the proxy drives it: what goes in comes out once, in order, and nothing after a fault.

Each side is one of our layers with a recorder above it; the peer is an OpenSSL of its own.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import pytest
import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer, NextLayer
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.tunnel import TunnelState
from OpenSSL import SSL

from egress.addons.http_layers import SecondPassed
from egress.addons.tls_layers import (
    MAX_ANSWERED_BYTES,
    ConnectionLost,
    SandboxTlsLayer,
    UpstreamTlsLayer,
    _waiting,
)
from tests.addons.handshake import TLS_1_2, TLS_1_3, asking, serving, upstream, visiting

HOST = "api.example.com"
CA = trustme.CA(key_type=trustme.KeyType.ECDSA)
LEAF = CA.issue_cert(HOST, key_type=trustme.KeyType.ECDSA)
ALERT = bytes.fromhex("15030300020250")
"""internal_error, in clear: where everything is encrypted it cannot be read."""


class Top(Layer):
    """What stands above TLS: it notes what comes, and answers what it was told to."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.started = False
        self.parts: list[bytes] = []
        self.closed = 0
        self.others: list[events.Event] = []
        self.answers: list[commands.Command] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.Start):
            self.started = True
        elif isinstance(event, events.DataReceived):
            assert self.started, "data before the beginning"
            assert not self.closed, "data after the end"
            self.parts.append(event.data)
        elif isinstance(event, events.ConnectionClosed):
            self.closed += 1
        else:
            self.others.append(event)
        answers, self.answers = self.answers, []
        yield from answers


@dataclass
class Stage:
    """A layer in the middle of `peer` below and `top` above."""

    layer: SandboxTlsLayer | UpstreamTlsLayer
    ours: SSL.Connection
    peer: SSL.Connection
    top: Top
    hooks: list[str] = field(default_factory=list)
    is_closed: bool = False
    sends: int = 0

    def start(self) -> Stage:
        self.feed(events.Start())
        return self

    def shake(self) -> Stage:
        self.start()
        self.shake_on()
        assert self.layer.tunnel_state is TunnelState.OPEN
        return self

    def shake_on(self) -> None:
        """The rest of a handshake that has begun."""
        for _ in range(4):
            self.step()

    def step(self) -> None:
        """Let the peer shake hands, and carry what it says."""
        with contextlib.suppress(SSL.WantReadError):
            self.peer.do_handshake()
        self.carry()

    def carry(self) -> None:
        if data := said(self.peer):
            self.receive(data)

    def say(self, data: bytes) -> None:
        """The peer sends."""
        self.peer.sendall(data)
        self.carry()

    def receive(self, data: bytes) -> None:
        self.feed(events.DataReceived(self.layer.conn, data))

    def send(self, data: bytes) -> None:
        """What stands above sends."""
        self.top.answers = [commands.SendData(self.layer.conn, data)]
        self.feed(SecondPassed())

    def close(self) -> None:
        """What stands above closes."""
        self.top.answers = [commands.CloseConnection(self.layer.conn)]
        self.feed(SecondPassed())

    def feed(self, event: events.Event) -> None:
        for command in self.layer.handle_event(event):
            self.obey(command)

    def obey(self, command: commands.Command) -> None:
        if isinstance(command, commands.StartHook):
            self.hooks.append(command.name)
            if command.name.startswith("tls_start"):
                command.args()[0].ssl_conn = self.ours
            self.feed(events.HookCompleted(command, None))
        elif isinstance(command, commands.SendData):
            assert not self.is_closed, "sent after the end"
            self.sends += 1
            self.peer.bio_write(command.data)
        elif isinstance(command, commands.CloseConnection):
            self.is_closed = True

    def heard(self) -> bytes:
        """What the peer makes of all that was sent to it."""
        parts = bytearray()
        while True:
            try:
                parts += self.peer.recv(65536)
            except SSL.WantReadError:
                return bytes(parts)

    @property
    def held(self) -> tuple[int, int, int]:
        """Bytes that wait: to be decrypted, to be read, to be sent."""
        tls = self.layer.tls
        return _waiting(tls._into_ssl), tls.pending(), _waiting(tls._from_ssl)


def said(connection: SSL.Connection) -> bytes:
    try:
        return connection.bio_read(1 << 24)
    except SSL.WantReadError:
        return b""


def context() -> Context:
    client = Client(
        peername=("", 0), sockname=("", 0), timestamp_start=0, proxy_mode=ProxyMode.parse("regular")
    )
    client.state = ConnectionState.OPEN
    made = Context(client, Options())
    made.server = Server(address=(HOST, 443))
    made.server.state = ConnectionState.OPEN
    made.layers = [NextLayer(made)]
    return made


def trusted() -> bytes:
    return CA.cert_pem.bytes()


def sandbox(version: int = TLS_1_3, peer: SSL.Context | None = None) -> Stage:
    """The side towards a sandbox; the peer is a client."""
    around = context()
    layer, top = SandboxTlsLayer(around), Top(around)
    layer.child_layer = top
    ours = serving(upstream(LEAF, newest=version))
    # The layer reads the hello itself and asks for a context then.
    return Stage(layer, ours, asking(peer or visiting(trusted()), HOST), top)


def outward(version: int = TLS_1_3) -> Stage:
    """The side towards an upstream; the peer is a server."""
    around = context()
    layer, top = UpstreamTlsLayer(around), Top(around)
    layer.child_layer = top
    return Stage(layer, asking(visiting(trusted()), HOST), serving(upstream(LEAF, newest=version)), top)


SIDES = {"sandbox": sandbox, "upstream": outward}


@pytest.fixture(params=[(side, version) for side in SIDES for version in (TLS_1_2, TLS_1_3)])
def stage(request: pytest.FixtureRequest) -> Stage:
    side, version = request.param
    return SIDES[side](version).shake()


# Data -------------------------------------------------------------------------------------------


def test_what_one_side_sends_the_other_reads(stage: Stage) -> None:
    stage.say(b"hello")
    assert stage.top.data == b"hello"
    stage.send(b"world")
    assert stage.heard() == b"world"
    assert stage.held == (0, 0, 0)


def test_data_that_comes_with_the_end_of_the_handshake_is_heard_once_and_behind_the_beginning() -> None:
    """TLS 1.3: a client may send its request in the same breath as its Finished."""
    stage = sandbox().start()
    stage.step()
    stage.peer.do_handshake()
    stage.peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert stage.top.parts == []
    stage.carry()
    assert stage.top.started
    assert stage.top.data == b"GET / HTTP/1.1\r\n\r\n"
    assert stage.held == (0, 0, 0)
    stage.say(b"more")
    assert stage.top.data.endswith(b"\r\n\r\nmore")


def test_a_goodbye_that_comes_with_the_end_of_the_handshake_is_heard_behind_the_data() -> None:
    stage = sandbox().start()
    stage.step()
    stage.peer.do_handshake()
    stage.peer.sendall(b"last words")
    stage.peer.shutdown()
    stage.carry()
    assert (stage.top.data, stage.top.closed) == (b"last words", 1)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_records_that_come_in_pieces_are_put_together(stage: Stage, size: int) -> None:
    data = bytes(range(256)) * 200
    stage.peer.sendall(data)
    sealed = said(stage.peer)
    for at in range(0, len(sealed), size):
        stage.receive(sealed[at : at + size])
    assert stage.top.data == data
    assert stage.held == (0, 0, 0)


def test_many_records_in_one_read_are_one_piece_above(stage: Stage) -> None:
    for number in range(100):
        stage.peer.sendall(b"%03d" % number)
    before = len(stage.top.parts)
    stage.carry()
    assert stage.top.data == b"".join(b"%03d" % number for number in range(100))
    assert len(stage.top.parts) == before + 1


def test_a_part_of_a_record_is_kept_and_nothing_else(stage: Stage) -> None:
    stage.peer.sendall(b"x" * 100)
    sealed = said(stage.peer)
    stage.receive(sealed[:-1])
    assert not stage.top.data
    assert stage.layer.tls.pending() == 0
    stage.receive(sealed[-1:])
    assert stage.top.data == b"x" * 100
    assert stage.held == (0, 0, 0)


def test_a_large_write_goes_out_whole_and_leaves_nothing_behind(stage: Stage) -> None:
    """In one command, of however many records."""
    data = bytes(range(256)) * 16 * 1024
    before = stage.sends
    stage.send(data)
    assert stage.sends == before + 1
    assert stage.held == (0, 0, 0)
    assert stage.heard() == data


def test_an_empty_write_says_nothing(stage: Stage) -> None:
    before = stage.sends
    stage.send(b"")
    assert stage.sends == before


def test_what_is_about_nobody_passes_untouched(stage: Stage) -> None:
    """Ticks and the like, and what is sent on other connections."""
    other = Server(address=("other.example.com", 443))
    tick = SecondPassed()
    stage.feed(tick)
    assert stage.top.others[-1] is tick
    stage.top.answers = [commands.SendData(other, b"in clear")]
    [command] = list(stage.layer.handle_event(SecondPassed()))
    assert isinstance(command, commands.SendData)
    assert (command.connection, command.data) == (other, b"in clear")


# Ends -------------------------------------------------------------------------------------------


def test_a_goodbye_is_the_end_once(stage: Stage) -> None:
    stage.peer.sendall(b"last words")
    stage.peer.shutdown()
    stage.carry()
    assert (stage.top.data, stage.top.closed) == (b"last words", 1)
    assert stage.layer.has_said_goodbye
    assert not stage.layer.conn.state & ConnectionState.CAN_READ
    # The end of the connection below follows.
    stage.feed(events.ConnectionClosed(stage.layer.conn))
    assert stage.top.closed == 1


def test_what_comes_behind_a_goodbye_is_nothing(stage: Stage) -> None:
    """`Top` fails on it, and hears of the end once."""
    stage.peer.sendall(b"late")
    late = said(stage.peer)
    stage.peer.shutdown()
    stage.carry()
    stage.receive(late)
    assert stage.top.closed == 1


def test_after_a_goodbye_the_other_direction_goes_on(stage: Stage) -> None:
    """A client may say that it sends no more, and still read."""
    stage.peer.shutdown()
    stage.carry()
    assert not stage.is_closed
    stage.send(b"the answer")
    assert stage.heard() == b"the answer"


@pytest.mark.parametrize("end", [events.ConnectionClosed, ConnectionLost])
def test_a_connection_that_ends_without_a_goodbye_has_said_none(
    stage: Stage, end: type[events.ConnectionClosed]
) -> None:
    """An end that the peer, or somebody on the way, has made is another one than a reset."""
    stage.say(b"half of it")
    stage.feed(end(stage.layer.conn))
    assert (stage.top.data, stage.top.closed) == (b"half of it", 1)
    assert not stage.layer.has_said_goodbye
    assert stage.layer.is_broken is (end is ConnectionLost)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_sandbox_is_said_goodbye_to(version: int) -> None:
    """Without it a client could not tell an end from a cut."""
    stage = sandbox(version).shake()
    stage.send(b"all of it")
    stage.close()
    assert stage.is_closed
    assert stage.peer.recv(100) == b"all of it"
    with pytest.raises(SSL.ZeroReturnError):
        stage.peer.recv(100)


def test_both_may_say_goodbye() -> None:
    stage = sandbox().shake()
    stage.peer.shutdown()
    stage.carry()
    stage.close()
    assert stage.is_closed
    with pytest.raises(SSL.ZeroReturnError):
        stage.peer.recv(100)


def test_a_sandbox_that_has_not_shaken_hands_is_just_closed() -> None:
    stage = sandbox().start()
    stage.step()
    for command in stage.layer.send_close(commands.CloseConnection(stage.layer.conn)):
        stage.obey(command)
    assert stage.is_closed


# Faults -----------------------------------------------------------------------------------------


def spoilt(sealed: bytes) -> bytes:
    """The same with one bit of the last byte turned."""
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


def test_a_record_that_cannot_be_read_ends_it_and_what_came_before_counts(stage: Stage) -> None:
    stage.peer.sendall(b"good")
    good = said(stage.peer)
    stage.peer.sendall(b"evil")
    bad = spoilt(said(stage.peer))
    stage.peer.sendall(b"late")
    late = said(stage.peer)
    stage.receive(good + bad + late)
    assert (stage.top.data, stage.top.closed) == (b"good", 1)
    assert stage.is_closed
    assert not stage.layer.has_said_goodbye


def test_after_a_fault_nothing_more_is_read(stage: Stage) -> None:
    """Not even what would have been fine by itself: `Top` fails on data behind the end."""
    stage.peer.sendall(b"evil")
    stage.receive(spoilt(said(stage.peer)))
    stage.peer.sendall(b"late")
    stage.receive(said(stage.peer))
    stage.feed(events.ConnectionClosed(stage.layer.conn))
    assert stage.top.data == b""


@pytest.mark.parametrize(
    "data", [ALERT, b"GET / HTTP/1.1\r\n\r\n", bytes(100)], ids=["alert", "http", "zeros"]
)
def test_what_is_not_tls_ends_it_and_is_never_passed_on(stage: Stage, data: bytes) -> None:
    stage.receive(data)
    assert stage.top.data == b""
    assert stage.is_closed
    assert stage.layer.is_broken
    assert not stage.layer.has_said_goodbye


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("side", SIDES)
def test_an_alert_of_the_peer_is_no_goodbye(side: str, version: int) -> None:
    """A fatal one, sealed as it should be: OpenSSL then says that the peer has shut down, too."""
    stage = SIDES[side](version).shake()
    stage.say(b"half of it")
    # What the peer cannot read makes it send an alert.
    stage.send(b"x" * 20)
    stage.peer.bio_write(bytes.fromhex("1703030020") + bytes(32))
    assert stage.peer.recv(100) == b"x" * 20
    with pytest.raises(SSL.Error, match=r"decryption failed|bad record"):
        stage.peer.recv(100)
    stage.carry()
    assert (stage.top.data, stage.top.closed) == (b"half of it", 1)
    assert stage.layer.tls.get_shutdown() & SSL.RECEIVED_SHUTDOWN
    assert stage.layer.is_broken
    assert not stage.layer.has_said_goodbye


def test_nothing_of_a_handshake_that_fails_gets_above() -> None:
    """A client that does not trust us says so instead of its Finished."""
    strangers = visiting(trustme.CA().cert_pem.bytes())
    stage = sandbox(peer=strangers).start()
    stage.step()
    with pytest.raises(SSL.Error):
        stage.peer.do_handshake()
    stage.carry()
    assert "tls_failed_client" in stage.hooks
    assert stage.is_closed
    assert stage.top.data == b""


def test_a_client_that_breaks_off_before_its_first_word_has_not_trusted_us() -> None:
    """Some look at the certificate when the handshake is over for us."""
    stage = sandbox().shake()
    stage.receive(bytes.fromhex("1703030020") + bytes(32))
    assert "tls_failed_client" in stage.hooks
    assert stage.is_closed


def test_one_that_has_spoken_has_trusted_us() -> None:
    stage = sandbox().shake()
    stage.say(b"GET")
    stage.receive(bytes.fromhex("1703030020") + bytes(32))
    assert "tls_failed_client" not in stage.hooks
    assert stage.is_closed


# New keys ---------------------------------------------------------------------------------------


class Keys:
    """The keys of one direction of TLS 1.3, to say what OpenSSL's own client never says."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.sent = 0

    def seal(self, kind: int, data: bytes) -> bytes:
        """A record of this inner type."""
        inner = data + bytes([kind])
        head = bytes.fromhex("170303") + (len(inner) + 16).to_bytes(2, "big")
        count = self.sent.to_bytes(12, "big")
        nonce = bytes(a ^ b for a, b in zip(self._expand(b"iv", 12), count, strict=True))
        self.sent += 1
        return head + AESGCM(self._expand(b"key", 32)).encrypt(nonce, inner, head)

    def renew(self) -> None:
        self.secret = self._expand(b"traffic upd", 48)
        self.sent = 0

    def _expand(self, label: bytes, length: int) -> bytes:
        named = b"tls13 " + label
        info = length.to_bytes(2, "big") + bytes([len(named)]) + named + b"\0"
        return HKDFExpand(hashes.SHA384(), length, info).derive(self.secret)


UPDATE, UPDATE_AND_ANSWER = bytes.fromhex("1800000100"), bytes.fromhex("1800000101")
HANDSHAKE, DATA = 22, 23


def keyed() -> tuple[Stage, Keys]:
    lines: list[bytes] = []
    client = visiting(trusted())
    client.set_keylog_callback(lambda _connection, line: lines.append(line))
    stage = sandbox(peer=client).shake()
    assert stage.peer.get_cipher_name() == "TLS_AES_256_GCM_SHA384"
    [secret] = [line.split()[2] for line in lines if line.startswith(b"CLIENT_TRAFFIC_SECRET_0 ")]
    return stage, Keys(bytes.fromhex(secret.decode()))


def test_a_client_may_change_its_keys() -> None:
    stage, keys = keyed()
    stage.receive(keys.seal(DATA, b"before "))
    stage.receive(keys.seal(HANDSHAKE, UPDATE))
    keys.renew()
    stage.receive(keys.seal(DATA, b"after"))
    assert stage.top.data == b"before after"
    assert stage.held == (0, 0, 0)


def test_a_client_that_asks_for_new_keys_gets_them() -> None:
    """At the latest with the next thing that is said; both directions go on."""
    stage, keys = keyed()
    for _ in range(10):
        stage.receive(keys.seal(HANDSHAKE, UPDATE_AND_ANSWER))
        keys.renew()
    assert not stage.top.parts, "it is nothing for the layer above"
    stage.send(b"by the new key")
    assert stage.heard() == b"by the new key"
    stage.receive(keys.seal(DATA, b"by mine"))
    assert stage.top.data == b"by mine"
    assert stage.held == (0, 0, 0)


@pytest.mark.parametrize("together", [1, 500])
def test_a_client_that_asks_for_new_keys_for_ever_is_closed(together: int) -> None:
    """It would have the answers pile up, since nothing above ever hears of them."""
    stage, keys = keyed()
    stage.receive(keys.seal(DATA, b"good"))
    for _ in range(2000 // together):
        asked = bytearray()
        for _ in range(together):
            asked += keys.seal(HANDSHAKE, UPDATE_AND_ANSWER)
            keys.renew()
        if not stage.is_closed:
            stage.receive(bytes(asked))
    assert stage.is_closed
    assert (stage.top.data, stage.top.closed) == (b"good", 1)
    assert stage.layer._answered <= MAX_ANSWERED_BYTES + 500 * 40
    stage.receive(keys.seal(DATA, b"late"))
    assert stage.top.data == b"good"


def test_keys_that_the_client_did_not_announce_are_a_fault() -> None:
    stage, keys = keyed()
    keys.renew()
    stage.receive(keys.seal(DATA, b"evil"))
    assert stage.is_closed
    assert stage.top.data == b""


def test_a_short_way_is_only_for_what_stands() -> None:
    """During the handshake mitmproxy's own way is gone, whatever the event."""
    stage = sandbox().start()
    stage.feed(SecondPassed())
    assert stage.top.others == [], "what comes early waits for the handshake"
    stage.shake_on()
    assert len(stage.top.others) == 1
