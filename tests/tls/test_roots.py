"""Trust comes from certifi and from named files, and from nowhere else."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from OpenSSL import SSL

from egress.ca.bundle import certificates, public_roots
from egress.errors import ContentError
from egress.tls.contexts import UpstreamContexts
from egress.tls.roots import load_roots, trusted_roots
from tests.addons.handshake import Pair, serving, upstream

HOST = "api.example.com"


def test_the_roots_are_the_public_ones_and_those_that_were_named(tmp_path: Path) -> None:
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    place = tmp_path / "private.pem"
    ca.cert_pem.write_to_path(str(place))
    roots = trusted_roots([place])
    assert list(roots[:-1]) == list(certificates(public_roots()))
    assert roots[-1] == ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    server = upstream(ca.issue_cert(HOST))
    assert Pair(UpstreamContexts(roots).connecting(HOST, ()), serving(server)).run().is_up
    assert not Pair(UpstreamContexts(trusted_roots()).connecting(HOST, ()), serving(server)).run().is_up


def test_only_certificates_can_be_roots() -> None:
    with pytest.raises(ContentError, match="not a certificate"):
        load_roots(SSL.Context(SSL.TLS_CLIENT_METHOD), [b"no certificate"])
