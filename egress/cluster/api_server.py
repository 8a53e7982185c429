"""Where the API server is, and how this pod proves who it is."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.errors import UnreadableError, UsageError, reason_of

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_TOKEN_BYTES: Final = 16 * 1024
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """An API server, as a pod of one namespace reaches it."""

    host: str
    port: int
    namespace: str
    ca_file: Path
    token_file: Path

    def context(self) -> ssl.SSLContext:
        """Make a context that trusts the authority of the cluster alone. Raises `UnreadableError`."""
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UnreadableError(
                f"{self.ca_file} cannot be used: {reason_of(error)}", "mount the service account of this pod"
            ) from None

    def token(self) -> bytes:
        """Read the token: the kubelet writes another one every hour. No error quotes it."""
        try:
            with self.token_file.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES + 1).strip()
        except OSError as error:
            raise UnreadableError(
                f"{self.token_file} cannot be read: {reason_of(error)}",
                "mount the service account of this pod",
            ) from None
        if len(token) > MAX_TOKEN_BYTES or not _TOKEN.fullmatch(token):
            raise UnreadableError(
                f"{self.token_file} holds no token", "mount the service account of this pod"
            )
        return token


def cluster_of_pod(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT_FOLDER) -> ClusterApi:
    """Return the API server of the cluster that this process is a pod of. Raises `UsageError`."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 2**16):
        raise UsageError(
            "this is no pod of a cluster", "run it in a pod, where KUBERNETES_SERVICE_HOST is set"
        )
    try:
        namespace = (folder / "namespace").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        namespace = ""
    if not _NAMESPACE.fullmatch(namespace):
        raise UsageError(
            f"{folder}/namespace names no namespace", "mount the service account of this pod into it"
        )
    return ClusterApi(host, int(port), namespace, folder / "ca.crt", folder / "token")
