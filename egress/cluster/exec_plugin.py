"""The program of a kubeconfig that prints a token: `users[].user.exec`, as managed clusters have it.

It runs as kubectl runs it, with the variables of the user, but without a terminal: a plugin that needs a
person is refused. It runs as a secret source does (`egress.command_process`): time and output are bounded,
and no process of its group is left behind. A token is kept in memory until it expires. No error quotes what a
plugin has printed, on either stream.
"""

from __future__ import annotations

import base64
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from egress.command_process import MAX_OUTPUT_BYTES, AbortReason, CommandAborted, CommandEnd, CommandProcess
from egress.errors import ContentError, UnreadableError, reason_of

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_SECONDS: Final = 30.0
EXPIRY_MARGIN: Final = 30.0
"""A token is asked for anew so many seconds before its end."""
_BY_HAND: Final = "run it by hand with empty input: it has to print an ExecCredential with a token"


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """What a kubeconfig says about a plugin."""

    version: str
    words: tuple[str, ...] = field(repr=False)
    folder: Path
    """The folder of the kubeconfig: a command with a slash is relative to it."""
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cluster: tuple[tuple[str, str], ...] = ()
    """The server and its authority, for a plugin that asks for them."""

    @property
    def name(self) -> str:
        return Path(self.words[0]).name


class _Status(msgspec.Struct):
    token: str = ""
    expires: datetime | None = msgspec.field(name="expirationTimestamp", default=None)


class _Credential(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    status: _Status


@dataclass(slots=True)
class ExecPlugin:
    """A plugin, and the token that it has given."""

    command: PluginCommand
    environ: Mapping[str, str] = field(repr=False)
    now: Callable[[], float] = time.time  # noqa: TID251 - tokens of a cluster have the time of the world
    seconds: float = PLUGIN_SECONDS
    _token: bytes = field(default=b"", init=False, repr=False)
    _expires: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def token(self) -> bytes:
        """Return a token that has not expired. Raises `UnreadableError` and `ContentError`."""
        # One run at a time: a plugin may write a cache of its own, or open a browser.
        with self._lock:
            is_over = self._expires is not None and self._expires - EXPIRY_MARGIN <= self.now()
            if not self._token or is_over:
                self._token, self._expires = self._run()
            return self._token

    def forget(self) -> None:
        """Take note that the API server refuses the token."""
        with self._lock:
            self._token = b""

    def _run(self) -> tuple[bytes, float | None]:
        ended = self._ended()
        if ended.status:
            told = (
                f"ended with status {ended.status}"
                if ended.status > 0
                else f"was killed by signal {-ended.status}"
            )
            raise UnreadableError(f"the plugin {self.command.name} {told}", _BY_HAND)
        try:
            found = msgspec.json.decode(ended.output.reveal(), type=_Credential)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._unusable("printed no ExecCredential") from None
        if (found.api_version, found.kind) != (self.command.version, "ExecCredential"):
            raise self._unusable(f"printed no ExecCredential of {self.command.version}")
        if not found.status.token:
            raise self._unusable("gave no token; a client certificate of a plugin cannot be used")
        expires = found.status.expires
        if expires is not None and expires.tzinfo is None:
            raise self._unusable("gave a token whose end has no time zone")
        return found.status.token.encode(), None if expires is None else expires.astimezone(UTC).timestamp()

    def _ended(self) -> CommandEnd:
        """Run the plugin to its end."""
        words = [self._program(), *self.command.words[1:]]
        variables = {**self.environ, **dict(self.command.variables), "KUBERNETES_EXEC_INFO": self._info()}
        try:
            ended = CommandProcess().run(words[0], words, variables, None, self.seconds)
        except OSError as error:
            raise UnreadableError(
                f"the plugin {self.command.name} cannot be started: {reason_of(error)}", "check the program"
            ) from None
        if not isinstance(ended, CommandAborted):
            return ended
        if ended.reason is AbortReason.TOO_LONG:
            raise self._unusable(f"printed more than {MAX_OUTPUT_BYTES} bytes")
        if ended.reason is AbortReason.LATE:
            raise UnreadableError(
                f"the plugin {self.command.name} gave no token within {self.seconds:g} seconds", _BY_HAND
            )
        raise UnreadableError(f"the plugin {self.command.name} {ended.told(self.seconds)}", _BY_HAND)

    def _program(self) -> str:
        first = self.command.words[0]
        if "/" in first:
            # Relative to the kubeconfig, as for kubectl, and never to the working folder.
            return str(self.command.folder.absolute() / first)
        folders = self.environ.get("PATH", os.defpath).split(":")
        path = ":".join(each for each in folders if each.startswith("/"))
        found = shutil.which(first, path=path)
        if found is None:
            raise UnreadableError(
                f"the plugin {self.command.name} is not installed", "install it, or fix PATH"
            )
        return found

    def _info(self) -> str:
        spec: dict[str, object] = {"interactive": False}
        if self.command.cluster:
            spec["cluster"] = dict(self.command.cluster)
        value = {"apiVersion": self.command.version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(value).decode()

    def _unusable(self, why: str) -> ContentError:
        return ContentError(f"the plugin {self.command.name} {why}", _BY_HAND)


def authority_text(authority: Path | bytes) -> str:
    """Return the authority of a cluster as a plugin is given it. Raises `UnreadableError`."""
    try:
        data = authority.read_bytes() if isinstance(authority, Path) else authority
    except OSError as error:
        raise UnreadableError(
            f"{authority!s} cannot be read: {reason_of(error)}", "check its rights"
        ) from None
    return base64.b64encode(data).decode("ascii")
