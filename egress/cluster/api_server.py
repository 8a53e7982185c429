"""Where the API server is, and how this process proves who it is."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from egress.cluster.exec_plugin import ExecPlugin
from egress.errors import UnreadableError, UsageError, reason_of
from egress.kubernetes.pod_identity import API_SERVER_VARIABLE, SERVICE_ACCOUNT_PATH

MAX_TOKEN_BYTES: Final = 16 * 1024
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")
NAMESPACE_PATTERN: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ACCESS_HINT: Final = "check the kubeconfig, or mount the service account of this pod"


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate by which the API server knows this process, and its key."""

    chain: Path | bytes = field(repr=False)
    """A file, or PEM."""
    key: Path | bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """An API server, and the namespace in which it is used."""

    host: str
    port: int
    namespace: str
    authority: Path | bytes = field(repr=False)
    """The certificates to trust: a file, or PEM."""
    token_source: Path | bytes = field(default=b"", repr=False)
    """A file with a token, or the token; empty for none."""
    certificate: ClientCertificate | None = None
    server_name: str = ""
    """The name in the server's certificate, where it is not the host."""
    prefix: str = ""
    """The path in front of every path, such as `/k8s/clusters/one`."""
    plugin: ExecPlugin | None = field(default=None, repr=False, compare=False)
    """Where tokens come from, if a program gives them."""

    @property
    def tls_name(self) -> str:
        return self.server_name or self.host

    @property
    def host_header(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def namespaced(self, collection: str, name: str = "", base: str = "/api/v1") -> str:
        """Return the path of a collection in the namespace, or of one object in it."""
        place = f"{base}/namespaces/{quote(self.namespace, safe='')}/{collection}"
        return f"{place}/{quote(name, safe='')}" if name else place

    def context(self) -> ssl.SSLContext:
        """Make a context that trusts the authority of the cluster alone. Raises `UnreadableError`."""
        try:
            if isinstance(self.authority, Path):
                context = ssl.create_default_context(cafile=self.authority)
            else:
                context = ssl.create_default_context(cadata=self.authority.decode("ascii"))
        except (OSError, ValueError) as error:
            raise UnreadableError(
                f"{_place(self.authority, 'the authority')} cannot be used: {_cause(error)}", _ACCESS_HINT
            ) from None
        # Python 3.13 asks for extensions that the authorities of many clusters lack. The chain and the name
        # are verified without them.
        context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
        if self.certificate is not None:
            _load_certificate(context, self.certificate)
        return context

    def token(self) -> bytes:
        """Read the token: the kubelet writes another one every hour. No error quotes it."""
        if self.plugin is not None:
            # A byte that is in no token, where a plugin has printed spaces alone.
            return _checked_token(self.plugin.token().strip() or b"\0", "the plugin of the kubeconfig")
        if isinstance(self.token_source, bytes):
            return _checked_token(self.token_source, "the kubeconfig")
        try:
            with self.token_source.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES + 1).strip()
        except OSError as error:
            raise UnreadableError(
                f"{self.token_source} cannot be read: {reason_of(error)}", _ACCESS_HINT
            ) from None
        return _checked_token(token or b"\0", str(self.token_source))

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of every request. Raises `UnreadableError`."""
        token = self.token()
        proof = (("Authorization", f"Bearer {token.decode('ascii')}"),) if token else ()
        return (("User-Agent", "egress"), *proof)


def cluster_of_pod(environ: Mapping[str, str], folder: Path = Path(SERVICE_ACCOUNT_PATH)) -> ClusterApi:
    """Return the API server of the cluster that this process is a pod of. Raises `UsageError`."""
    host, port = environ.get(API_SERVER_VARIABLE, ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 2**16):
        raise UsageError(
            "this is no pod of a cluster", "run it in a pod, where KUBERNETES_SERVICE_HOST is set"
        )
    try:
        namespace = (folder / "namespace").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        namespace = ""
    if not NAMESPACE_PATTERN.fullmatch(namespace):
        raise UsageError(
            f"{folder}/namespace names no namespace", "mount the service account of this pod into it"
        )
    return ClusterApi(host, int(port), namespace, folder / "ca.crt", folder / "token")


def _checked_token(token: bytes, place: str) -> bytes:
    if token and (len(token) > MAX_TOKEN_BYTES or not _TOKEN.fullmatch(token)):
        raise UnreadableError(f"{place} holds no token", _ACCESS_HINT)
    return token


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    # The library reads certificates from files only. A file in memory has no name that others could open.
    chain, key = _file_of(certificate.chain), _file_of(certificate.key)
    try:
        # An empty password: an encrypted key is an error, and no prompt.
        context.load_cert_chain(chain[0], key[0], password=b"")
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"{_place(certificate.chain, 'the client certificate')} cannot be used: {_cause(error)}",
            "name a certificate and its unencrypted key, both in PEM",
        ) from None
    finally:
        for _, descriptor in (chain, key):
            if descriptor >= 0:
                os.close(descriptor)


def _file_of(data: Path | bytes) -> tuple[Path, int]:
    """Return a path from which data can be read, and the descriptor to close afterwards."""
    if isinstance(data, Path):
        return data, -1
    descriptor = os.memfd_create("egress", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return Path(f"/proc/self/fd/{descriptor}"), descriptor


def _place(data: Path | bytes, name: str) -> str:
    return str(data) if isinstance(data, Path) else f"{name} in the kubeconfig"


def _cause(error: Exception) -> str:
    # The text of an error of the library may quote a part of the data.
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return "it is no PEM, or a part is missing"
    return reason_of(error)
