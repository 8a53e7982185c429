"""TLS 1.2 as OpenSSL's own server and client see it: authenticated ciphers work, all others are refused."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import at, connect
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()
pytestmark = pytest.mark.system("openssl", "openssl")

AUTHENTICATED = {
    "rsa": [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "DHE-RSA-AES128-GCM-SHA256",
        "DHE-RSA-AES256-GCM-SHA384",
        "DHE-RSA-CHACHA20-POLY1305",
    ],
    "ecdsa": [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ],
}
REFUSED = {
    "rsa": [
        "ECDHE-RSA-AES128-SHA256",
        "ECDHE-RSA-AES256-SHA384",
        "ECDHE-RSA-AES256-SHA",
        "DHE-RSA-AES256-SHA256",
        "AES128-GCM-SHA256",
    ],
    "ecdsa": ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-CCM"],
    "dsa": ["DHE-DSS-AES128-GCM-SHA256", "DHE-DSS-AES256-GCM-SHA384"],
}


def rules(port: int) -> str:
    return f"version: 1\nhosts:\n  {NAME}:\n    ports: [{port}]\n    addresses: [127.0.0.1/32]\n"


def write_leaf(folder: Path, kind: str) -> Path:
    """A leaf of this kind of key, with its key and its authority, as s_server reads them."""
    path = folder / f"{kind}.pem"
    if kind == "dsa":
        path.write_bytes(dsa_leaf())
        return path
    key_type = trustme.KeyType.RSA if kind == "rsa" else trustme.KeyType.ECDSA
    leaf = CERTS._ca.issue_cert(NAME, key_type=key_type)
    path.write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
    return path


def dsa_leaf() -> bytes:
    key = dsa.generate_private_key(2048)
    authority = load_pem_private_key(CERTS._ca.private_key_pem.bytes(), None)
    assert isinstance(authority, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(CERTS.ca_pem)
    made = (
        x509.CertificateBuilder(issuer.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2090, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=True)
        .sign(authority, hashes.SHA256())
    )
    shown = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return shown + made.public_bytes(Encoding.PEM)


@asynccontextmanager
async def server(leaf: Path, *options: str) -> AsyncIterator[int]:
    """OpenSSL's own server; it answers every request with a page about its handshake."""
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", str(leaf), "-www", *options]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        while not (line := (await process.stdout.readline()).decode()).startswith("ACCEPT "):
            assert line, "s_server has ended"
        yield int(line.rpartition(":")[2])
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def asked(folder: Path, leaf: Path, cipher: str) -> Response:
    """The answer to a request whose upstream speaks this cipher and no other."""
    async with (
        server(leaf, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0") as port,
        ProxyStack(folder, CERTS, rules(port)) as stack,
        await connect(at(port), NAME, stack.trust("http/1.1"), proxy=stack.proxy) as peer,
    ):
        return await peer.get("/", f"{NAME}:{port}")


@pytest.mark.parametrize("kind", AUTHENTICATED)
async def test_an_upstream_may_choose_any_authenticated_cipher(tmp_path: Path, kind: str) -> None:
    leaf = write_leaf(tmp_path, kind)
    for cipher in AUTHENTICATED[kind]:
        response = await asked(tmp_path / cipher, leaf, cipher)
        assert response.status == 200, cipher
        assert f"Cipher    : {cipher}".encode() in response.body


@pytest.mark.parametrize("kind", REFUSED)
async def test_an_upstream_gets_no_other_cipher(tmp_path: Path, kind: str) -> None:
    """CBC, keys of DSA, and ciphers without forward secrecy."""
    leaf = write_leaf(tmp_path, kind)
    for cipher in REFUSED[kind]:
        response = await asked(tmp_path / cipher, leaf, cipher)
        assert (response.status, response.header("egress-denied")) == (502, "upstream.tls"), cipher


async def test_a_client_gets_authenticated_ciphers_and_no_others(tmp_path: Path) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
    ):

        async def agrees(cipher: str) -> bool:
            command = ["openssl", "s_client", "-proxy", f"127.0.0.1:{stack.port}", "-tls1_2"]
            command += ["-connect", f"{NAME}:{upstream.port}", "-servername", NAME, "-verify_return_error"]
            command += ["-CAfile", str(stack.write_ca()), "-cipher", f"{cipher}:@SECLEVEL=0"]
            process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            shown, _ = await process.communicate()
            return process.returncode == 0 and f"Cipher is {cipher}".encode() in shown

        for cipher in AUTHENTICATED["ecdsa"]:
            assert await agrees(cipher), cipher
        for cipher in REFUSED["ecdsa"]:
            assert not await agrees(cipher), cipher
