"""Serves the API of a fleet over TCP, for clients on other machines and for those without the unix socket.

Everything that can be wrong with the settings is found when the port is opened, before a fleet starts: the
address, the token and the certificate. The token is read once, and only its digest is kept.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from egress.api_server.access import ApiAccessGuard, host_name, token_digest
from egress.api_server.app import make_app
from egress.api_server.call import ApiContext
from egress.api_server.sandbox_pools import SandboxPool
from egress.api_server.server import ServingThread, server_config
from egress.api_server.strict_connection import StrictConnection
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.fleet.fleet import Fleet
from egress.private_file import read_or_create_private, read_private
from egress.proxy.ingress.listener import listen
from egress.proxy.setting_values import ListenAddress
from egress.server_certificate import server_context
from egress.wrong_tokens import WrongTokenBucket

TOKEN_BYTES: Final = 32
_MIN_TOKEN_CHARS: Final = 32
_MAX_TOKEN_BYTES: Final = 1024
_MAX_CONNECTIONS: Final = 512
"""Fewer than at the unix socket: whoever reaches the port can open them."""
_REQUEST_SECONDS: Final = 10
"""For the whole head of a request, and between an answer and the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPortSettings:
    """Where the port is, who may use it, and with which certificate."""

    at: ListenAddress
    token_file: Path
    is_token_named: bool
    """Whether the operator named the file of the token. Any other is created where there is none."""
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    pools: Mapping[str, SandboxPool] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address for clients: by the first name, if there is one."""
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.names[0]}:{self.at.port}" if self.names else f"{scheme}://{self.at}"

    @property
    def private_files(self) -> tuple[Path, ...]:
        """Files that no sandbox may see."""
        return (self.token_file,) if self.key is None else (self.token_file, self.key)

    def check(self) -> None:
        """Raise `UsageError` for settings that do not fit together."""
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "a certificate and its key belong together", "give --api-tls-cert and --api-tls-key"
            )
        if self.certificate is None and not self.at.is_loopback:
            raise UsageError(
                f"the API at {self.at} needs TLS: its token and all data would be open to the network",
                "give --api-tls-cert and --api-tls-key, or listen on 127.0.0.1",
            )
        if ip_address(self.at.host).is_unspecified and not self.names:
            raise UsageError(
                f"{self.at} is no address that clients can name",
                "give the name that they use with --api-name, or one address with --api-listen",
            )
        for name in self.names:
            if host_name(name) is None or ":" in name:
                raise UsageError("--api-name is not a host name", "write it like sandboxes.example.com")


class ApiPort:
    """The listening socket, from its creation to `close`; served from `serve`."""

    def __init__(self, settings: ApiPortSettings) -> None:
        """Listen. Raises `UsageError`, `UnreadableError` and `ContentError` for settings that cannot be."""
        settings.check()
        self._settings = settings
        self._digest = token_digest(_read_token(settings))
        self._tls = _tls_context(settings)
        try:
            self._listener = listen(settings.at.host, settings.at.port)
        except OSError as error:
            raise UnreadableError(
                f"the API cannot be served on {settings.at}: {reason_of(error)}",
                "name another address with --api-listen",
            ) from None
        self.at = ListenAddress(settings.at.host, int(self._listener.getsockname()[1]))
        """With the port that the kernel chose, if that was left to it."""
        self._serving: ServingThread | None = None

    def serve(self, fleet: Fleet, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Answer requests of the API. Nobody at a port may do what only the owner may."""
        pools = self._settings.pools
        context = ApiContext(fleet, _refuse_shutdown, is_owner_only=False, pools=pools)
        self.serve_app(make_app(context), monotonic)

    def serve_app(self, app: ASGIApp, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Answer requests by an application, behind the guard."""
        names = {str(ip_address(self.at.host)), *filter(None, map(host_name, self._settings.names))}
        if self.at.is_loopback:
            names.add("localhost")
        guard = ApiAccessGuard(app, self._digest, names, WrongTokenBucket(monotonic))
        config = server_config(guard, StrictConnection)
        config.limit_concurrency = _MAX_CONNECTIONS
        config.timeout_keep_alive = _REQUEST_SECONDS
        self._serving = ServingThread(config, self._listener, self._tls)

    def close(self) -> None:
        """Close the port and all connections. The fleet itself stays open."""
        if self._serving is None:
            self._listener.close()
        else:
            self._serving.close()


def _refuse_shutdown() -> None:
    """Never called: the call is the owner's alone."""


def _read_token(settings: ApiPortSettings) -> bytes:
    path, cure = settings.token_file, "name another with --api-token-file"
    try:
        if settings.is_token_named:
            data = read_private(path, _MAX_TOKEN_BYTES, cure, is_named=True)
        else:
            data = read_or_create_private(path, _make_token, _MAX_TOKEN_BYTES, cure)
    except FileNotFoundError:
        raise UnreadableError(f"{path} cannot be read: there is no such file", cure) from None
    token = data.removesuffix(b"\n").removesuffix(b"\r")
    if len(token) < _MIN_TOKEN_CHARS or not all(0x21 <= byte <= 0x7E for byte in token):
        raise ContentError(
            f"the token in {path} is not one to rely on",
            f"write one line of at least {_MIN_TOKEN_CHARS} letters and digits; `openssl rand "
            "-hex 32` gives one",
        )
    return token


def _make_token() -> bytes:
    return f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode()


def _tls_context(settings: ApiPortSettings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.key is None:
        return None
    return server_context(settings.certificate, settings.key, "--api-tls-cert and --api-tls-key")
