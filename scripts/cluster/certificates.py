"""The keys and certificates of a cluster: made anew at each start, and gone with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scripts.cluster.addresses import API_PORT, API_SERVICE, NODE, NODE_ADDRESS

LIFETIME: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody whom the API server knows by a certificate."""

    file: str
    name: str
    group: str = ""
    hosts: tuple[str, ...] = ()


_API_SERVER = Member(
    "api-server",
    "kube-apiserver",
    hosts=("kubernetes", "kubernetes.default", "kubernetes.default.svc", API_SERVICE, NODE_ADDRESS),
)
_NODE = Member("node", f"system:node:{NODE}", "system:nodes", (NODE, NODE_ADDRESS))
ADMIN: Final = Member("admin", "admin", "system:masters")
CLIENTS: Final = (
    ADMIN,
    Member("controller-manager", "system:kube-controller-manager"),
    Member("scheduler", "system:kube-scheduler"),
    Member("proxy", "system:kube-proxy"),
    _NODE,
)


def write_all(folder: Path) -> None:
    """Write the authority, a certificate and key for everybody, and a kubeconfig for each client."""
    folder.mkdir(parents=True, mode=0o700)
    authority = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(authority, authority, "kube-authority", is_authority=True)
    (folder / "authority.crt").write_bytes(certificate)
    _write_key(folder / "authority.key", authority)
    for member in (*CLIENTS, _API_SERVER):
        key = ec.generate_private_key(ec.SECP256R1())
        _write_key(folder / f"{member.file}.key", key)
        signed = _certificate(authority, key, member.name, member.group, member.hosts)
        (folder / f"{member.file}.crt").write_bytes(signed)
    for member in CLIENTS:
        (folder / f"{member.file}.kubeconfig").write_text(_kubeconfig(folder, member), "utf-8")
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "accounts.key", accounts)
    public = accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "accounts.pub").write_bytes(public)


def _certificate(
    authority: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    name: str,
    group: str = "",
    hosts: Sequence[str] = (),
    *,
    is_authority: bool = False,
) -> bytes:
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group:
        subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
    )
    if is_authority:
        builder = builder.add_extension(_SIGNS_CERTIFICATES, critical=True)
    else:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


_SIGNS_CERTIFICATES: Final = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _kubeconfig(folder: Path, member: Member) -> str:
    """JSON is YAML, too."""

    def data(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode("ascii")

    server = f"https://{NODE_ADDRESS}:{API_PORT}"
    cluster = {"server": server, "certificate-authority-data": data("authority.crt")}
    user = {
        "client-certificate-data": data(f"{member.file}.crt"),
        "client-key-data": data(f"{member.file}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "egress", "cluster": cluster}],
        "users": [{"name": member.file, "user": user}],
        "contexts": [{"name": "egress", "context": {"cluster": "egress", "user": member.file}}],
        "current-context": "egress",
    }
    return json.dumps(config, indent=1)
