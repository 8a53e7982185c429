"""The proxy as a runtime sees it: sandboxes are admitted and dismissed, and listeners are handed over to it.

What is spoken is what `egress serve --handover` answers to: HTTP with JSON over its control socket, and lines
of JSON with one descriptor each over its hand-over socket. Both belong to the user of the proxy, so a runtime
runs as the same user. Of an admission only what a sandbox is meant to hold comes back: a certificate, and
stand-ins.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from egress.control_client import ASK_TIMEOUT, HANDOVER_SOCKET, NoProxyError, ask_proxy, no_answer
from egress.errors import UnreadableError
from egress.runtime.errors import GatewayError, GatewayRefusedError, SandboxExistsError, SpecError
from egress.unix.http_connection import JsonAnswer
from egress.unix.stream_socket import connect_to_egress

SandboxListenerKind = Literal["proxy", "transparent", "dns-udp", "dns-tcp"]
Authority = str
"""A certificate in PEM form."""

_MAX_ANSWER_BYTES: Final = 64 * 1024
_START_HINT: Final = "start one with `egress serve --handover`, as the same user"


@dataclass(frozen=True, slots=True)
class PlantedCanary:
    """A value that nothing has a use for, and where it is planted."""

    name: str
    value: str = field(repr=False)
    env: str = ""
    """The variable; empty for none."""
    file: str = ""
    """The path inside, whole or below `~/`; empty for none."""
    content: str = field(default="", repr=False)
    """What that file says, the value in it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a sandbox that was admitted is to hold."""

    name: str
    authority: Authority
    """The certificate that its programs have to trust."""
    placeholders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Its stand-ins, by secret and form."""
    canaries: tuple[PlantedCanary, ...] = ()
    seed: str = field(default="", repr=False)
    """What its canaries are made from: whoever admits it again, to a proxy that has returned, says so."""


@dataclass(frozen=True, slots=True)
class SandboxListener:
    """A socket that was opened in the network of a sandbox."""

    kind: SandboxListenerKind
    port: int
    """The one that the sandbox dials."""
    sock: socket.socket = field(repr=False)


class ProxyClient(Protocol):
    """A proxy that takes sandboxes."""

    def admit(self, name: str, profile: str | None = None, seed: str = "") -> Admission:
        """Add a sandbox. Raises `SandboxExistsError`, or `GatewayError` where it is not taken.

        `seed` is that of the admission before, where canaries of it are planted already.
        """

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        """Let the proxy serve these for it, from now on. They stay open here. Raises `GatewayError`."""

    def dismiss(self, name: str) -> None:
        """End what the proxy does for it. Nothing happens where it knows no such sandbox, or is gone."""

    def open_liveness(self) -> LivenessConnection:
        """Keep in touch, so that the end of the proxy is noticed. Raises `GatewayError`."""


class LivenessConnection(Protocol):
    """A connection to the proxy for no other purpose than to see it end."""

    def wait(self) -> None:
        """Return when the proxy has ended, or `close` was called."""

    def close(self) -> None: ...


class ControlProxyClient:
    """A proxy on this machine, by the folder of its sockets."""

    def __init__(self, runtime_dir: Path) -> None:
        """Nothing is asked yet."""
        self._folder = runtime_dir
        self._handover = runtime_dir / HANDOVER_SOCKET

    def __repr__(self) -> str:
        return f"ProxyGateway({str(self._folder)!r})"

    def admit(self, name: str, profile: str | None = None, seed: str = "") -> Admission:
        again = {"seed": seed} if seed else {}
        status, answer = self._ask("POST", "/sandboxes", {"name": name, "profile": profile, **again})
        if status == 201:
            return _admission(name, answer)
        error, hint = _text_field(answer, "error"), _text_field(answer, "hint")
        if status == 409 and self._knows(name):
            raise SandboxExistsError(
                f"the proxy has a sandbox {name} already", "remove it, or take another name"
            )
        if status == 400:
            raise SpecError(f"the proxy does not take the sandbox {name}: {error}", hint)
        raise GatewayRefusedError(f"the proxy does not take the sandbox {name}: {error}", hint)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        with _connect(self._handover) as sock, sock.makefile("rb") as answers:
            for item in listeners:
                try:
                    socket.send_fds(sock, [_offer_line(name, item)], [item.sock.fileno()])
                    answer = _parse_answer(answers.readline(_MAX_ANSWER_BYTES))
                except (OSError, ValueError) as error:
                    raise _no_answer_error(no_answer(self._handover, error)) from None
                if answer.get("ok") is not True:
                    reason = _text_field(answer, "error")
                    raise GatewayRefusedError(
                        f"the proxy does not take port {item.port} of the sandbox {name}: {reason}",
                        "see `egress status`",
                    )

    def dismiss(self, name: str) -> None:
        with suppress(GatewayError):
            self._ask("DELETE", f"/sandboxes/{name}", {})

    def canary_offenders(self) -> frozenset[str]:
        """Name those that sent a canary which stops them: they have no access. Raises `GatewayError`."""
        _, answer = self._ask("GET", "/stopped", {})
        found = answer.get("sandboxes")
        return (
            frozenset(each for each in found if isinstance(each, str))
            if isinstance(found, list)
            else frozenset()
        )

    def open_liveness(self) -> LivenessConnection:
        return _LivenessSocket(_connect(self._handover, timeout=None))

    def _knows(self, name: str) -> bool:
        status, answer = self._ask("GET", "/status", {})
        there = answer.get("sandboxes")
        return (
            status == 200
            and isinstance(there, list)
            and any(isinstance(each, dict) and each.get("name") == name for each in there)
        )

    def _ask(self, method: str, target: str, body: Mapping[str, object]) -> JsonAnswer:
        try:
            return ask_proxy(self._folder, method, target, body)
        except UnreadableError as error:
            raise _no_answer_error(error) from None


class _LivenessSocket:
    """On which nothing is said."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def wait(self) -> None:
        with suppress(OSError):
            while self._sock.recv(64):
                pass

    def close(self) -> None:
        # Closing alone would not wake who waits.
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def _connect(path: Path, timeout: float | None = ASK_TIMEOUT) -> socket.socket:
    try:
        return connect_to_egress(path, timeout)
    except OSError as error:
        raise _no_answer_error(no_answer(path, error)) from None


def _no_answer_error(error: UnreadableError) -> GatewayError:
    return GatewayError(error.message, _START_HINT if isinstance(error, NoProxyError) else error.hint)


def _offer_line(name: str, item: SandboxListener) -> bytes:
    listener = f"{name}-{item.kind}-{item.port}"
    message = {"sandbox": name, "kind": item.kind, "port": item.port, "name": listener}
    return json.dumps(message).encode() + b"\n"


def _parse_answer(data: bytes) -> Mapping[str, object]:
    """What an answer says; raises `ValueError` for one that came in part."""
    found = json.loads(data)
    return found if isinstance(found, dict) else {}


def _text_field(answer: Mapping[str, object], key: str) -> str:
    found = answer.get(key)
    return found if isinstance(found, str) else ""


def _admission(name: str, answer: Mapping[str, object]) -> Admission:
    stand_ins = answer.get("placeholders")
    found = {
        secret: {str(form): str(value) for form, value in forms.items()}
        for secret, forms in (stand_ins.items() if isinstance(stand_ins, dict) else ())
        if isinstance(forms, dict)
    }
    authority = _text_field(answer, "ca")
    if "BEGIN CERTIFICATE" not in authority or "PRIVATE KEY" in authority:
        raise GatewayRefusedError(
            f"the proxy named no authority for the sandbox {name}", "bring proxy and runtime to one version"
        )
    return Admission(name, authority, found, _canaries(answer), _text_field(answer, "seed"))


def _canaries(answer: Mapping[str, object]) -> tuple[PlantedCanary, ...]:
    found = answer.get("canaries")
    each = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return tuple(
        PlantedCanary(*(_text_field(item, key) for key in ("name", "value", "env", "file", "content")))
        for item in each
    )
