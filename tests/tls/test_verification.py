"""The outcome of a handshake with an upstream: its name is proven, or the fault is named."""

from __future__ import annotations

import ssl

import pytest
import trustme

from egress.tls import verification
from egress.tls.contexts import UpstreamContexts
from tests.addons.handshake import TLS_1_2, TLS_1_3, Pair, serving, upstream

HOST = "api.example.com"
H1, H2 = b"http/1.1", b"h2"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def proving(ca: trustme.CA) -> UpstreamContexts:
    return UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])


def test_an_upstream_with_the_right_name_is_proven(ca: trustme.CA) -> None:
    client = proving(ca).connecting(HOST, (H1,))
    pair = Pair(client, serving(upstream(ca.issue_cert(HOST), alpn=(H2, H1)))).run()
    assert pair.is_up, pair.errors
    assert verification.is_verified(client)
    assert verification.verification_failure(client) == ""
    assert pair.server.get_servername() == HOST.encode()
    assert client.get_alpn_proto_negotiated() == H1


def test_before_the_handshake_nothing_is_verified(ca: trustme.CA) -> None:
    assert not verification.is_verified(proving(ca).connecting(HOST, ()))


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("named", ["other.example.com", "api.example.com.evil.example", "example.com"])
def test_another_name_is_refused(version: int, named: str, ca: trustme.CA) -> None:
    client = proving(ca).connecting(HOST, ())
    pair = Pair(client, serving(upstream(ca.issue_cert(named), newest=version))).run()
    assert "certificate verify failed" in str(pair.errors["client"])
    assert verification.verification_failure(client) == "hostname mismatch"
    assert not verification.is_verified(client)
