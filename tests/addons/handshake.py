"""TLS handshakes in memory: two pyOpenSSL connections, bytes carried between them by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import trustme
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL, crypto

from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS, leaf_certificate, new_key, root_certificate

TLS_1_2, TLS_1_3 = SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION


def today() -> int:
    """The time of this machine, which OpenSSL asks by itself."""
    return int(time.time())  # noqa: TID251 - see above


@dataclass
class Pair:
    """A client and a server; `run` lets them talk until neither has anything to say."""

    client: SSL.Connection
    server: SSL.Connection
    errors: dict[str, SSL.Error] = field(default_factory=dict)

    def run(self) -> Pair:
        """Shake hands; what went wrong stands in `errors` by side."""
        sides = {"client": self.client, "server": self.server}
        for _ in range(10):
            for name, connection in sides.items():
                if name not in self.errors:
                    self._step(name, connection)
            if not self._carry():
                break
        return self

    @property
    def is_up(self) -> bool:
        return not self.errors

    def say(self, data: bytes) -> bytes:
        """Send from the client to the server and back; takes in the tickets of TLS 1.3 on the way."""
        self.client.sendall(data)
        self._carry()
        got = self.server.recv(65536)
        self.server.sendall(got)
        self._carry()
        return self.client.recv(65536)

    def _step(self, name: str, connection: SSL.Connection) -> None:
        try:
            connection.do_handshake()
        except SSL.WantReadError:
            pass
        except SSL.Error as error:
            self.errors[name] = error

    def _carry(self) -> bool:
        moved = False
        for source, target in ((self.client, self.server), (self.server, self.client)):
            try:
                data = source.bio_read(1 << 20)
            except SSL.WantReadError:
                continue
            target.bio_write(data)
            moved = True
        return moved


class Issuer:
    """A root that signs whatever it is asked, as an attacker would; `trustme` is for the rest."""

    def __init__(
        self, now: int, constraints: Constraints | None = None, life: int = 30 * DAY_SECONDS
    ) -> None:
        self.key = new_key()
        self.now = now
        self.root = root_certificate("issuer", self.key, now, life, constraints)

    @property
    def der(self) -> bytes:
        return self.root.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.root.public_bytes(Encoding.PEM)

    def context(self, host: str, *, at: int | None = None) -> SSL.Context:
        """A server that shows a certificate for `host`, made at another time when `at` is given."""
        key = new_key()
        made = leaf_certificate(host, key.public_key(), self.root, self.key, self.now if at is None else at)
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.use_certificate(made)
        context.use_privatekey(key)
        return context


def upstream(
    certificate: trustme.LeafCert, *, alpn: tuple[bytes, ...] = (), newest: int = TLS_1_3
) -> SSL.Context:
    """A server context as upstreams have it."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_max_proto_version(newest)
    context.set_session_id(b"upstream")
    certificate.configure_cert(context)
    if alpn:
        context.set_alpn_select_callback(
            lambda _connection, asked: next((p for p in alpn if p in asked), SSL.NO_OVERLAPPING_PROTOCOLS)
        )
    return context


def serving(context: SSL.Context) -> SSL.Connection:
    connection = SSL.Connection(context, None)
    connection.set_accept_state()
    return connection


def visiting(
    trusted: bytes,
    *,
    alpn: tuple[bytes, ...] = (),
    oldest: int = TLS_1_2,
    newest: int = TLS_1_3,
) -> SSL.Context:
    """A client context that trusts one PEM certificate."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(oldest)
    context.set_max_proto_version(newest)
    context.set_verify(SSL.VERIFY_PEER)
    store = context.get_cert_store()
    assert store is not None
    store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, trusted))
    if alpn:
        context.set_alpn_protos(list(alpn))
    return context


def asking(context: SSL.Context, name: str | None, session: SSL.Session | None = None) -> SSL.Connection:
    connection = SSL.Connection(context, None)
    if name is not None:
        connection.set_tlsext_host_name(name.encode())
    if session is not None:
        connection.set_session(session)
    connection.set_connect_state()
    return connection
