"""The runtime's client of the proxy: admits and dismisses sandboxes, and hands listeners over.

The peer is `egress serve --handover`: HTTP with JSON on its control socket, and lines of JSON with one
descriptor each on its hand-over socket. Both sockets belong to the proxy's user, so a runtime runs as that
user. An admission holds only what a sandbox may know: a certificate, stand-ins and canaries.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, Protocol

from egress.control_client import ASK_TIMEOUT, HANDOVER_SOCKET, NoProxyError, ask_proxy, no_answer
from egress.errors import UnreadableError
from egress.runtime.errors import GatewayError, GatewayRefusedError, SandboxExistsError, SpecError
from egress.runtime.spec import NO_VALUES
from egress.unix.http_connection import JsonAnswer
from egress.unix.stream_socket import connect_to_egress

SandboxListenerKind = Literal["proxy", "transparent", "dns-udp", "dns-tcp"]
Bar = Literal["", "killed", "canary"]
"""Why a sandbox has no access: it was revoked by hand, or for a canary that it sent."""
Authority = str
"""A certificate in PEM form."""

_MAX_ANSWER_BYTES: Final = 64 * 1024
_START_HINT: Final = "start one with `egress serve --handover`, as the same user"


@dataclass(frozen=True, slots=True)
class PlantedCanary:
    """A worthless value, and its place in a sandbox."""

    name: str
    value: str = field(repr=False)
    env: str = ""
    """The variable; empty for none."""
    file: str = ""
    """The path inside, absolute or below `~/`; empty for none."""
    content: str = field(default="", repr=False)
    """The content of that file, with the value in it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The values that an admitted sandbox receives."""

    name: str
    authority: Authority
    """The certificate that its programs have to trust."""
    placeholders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Its stand-ins, by secret and form."""
    canaries: tuple[PlantedCanary, ...] = ()
    seed: str = field(default="", repr=False)
    """The seed of its canaries: passed to a returned proxy, so that the planted ones stay valid."""


@dataclass(frozen=True, slots=True)
class SandboxListener:
    """A socket that was opened in the network of a sandbox."""

    kind: SandboxListenerKind
    port: int
    """The port that the sandbox dials."""
    sock: socket.socket = field(repr=False)


class ProxyClient(Protocol):
    """A proxy that accepts sandboxes."""

    def admit(
        self,
        name: str,
        profile: str | None = None,
        seed: str = "",
        *,
        parameters: Mapping[str, str] = NO_VALUES,
    ) -> Admission:
        """Admit a sandbox. Raises `SandboxExistsError`, or `GatewayError` if the proxy refuses it.

        `seed` comes from an earlier admission whose canaries are planted already.
        """

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        """Let the proxy serve these listeners of a sandbox. They stay open here. Raises `GatewayError`."""

    def bar(self, name: str, bar: Bar) -> None:
        """Revoke the access of a sandbox that has no listener yet. Raises `GatewayError`."""

    def dismiss(self, name: str) -> None:
        """Revoke a sandbox. Does nothing if the proxy does not know it, or is gone."""

    def open_liveness(self) -> LivenessConnection:
        """Open a connection whose end reports the end of the proxy. Raises `GatewayError`."""


class LivenessConnection(Protocol):
    """An idle connection to the proxy, which ends with the proxy."""

    def wait(self) -> None:
        """Return when the proxy has ended, or `close` was called."""

    def close(self) -> None: ...


def _is_there_already() -> None:
    """Default: the proxy serves."""


class ControlProxyClient:
    """The proxy on this machine with these sockets."""

    def __init__(self, runtime_dir: Path, await_proxy: Callable[[], None] = _is_there_already) -> None:
        """Take the folder of the sockets. Nothing is connected yet.

        `await_proxy` is called before the first question, and returns when the proxy serves.
        """
        self._folder = runtime_dir
        self._await_proxy = await_proxy
        self._handover = runtime_dir / HANDOVER_SOCKET

    def __repr__(self) -> str:
        return f"ControlProxyClient({str(self._folder)!r})"

    def admit(
        self,
        name: str,
        profile: str | None = None,
        seed: str = "",
        *,
        parameters: Mapping[str, str] = NO_VALUES,
    ) -> Admission:
        asked = {"name": name, "profile": profile, "params": dict(parameters)}
        status, answer = self._ask("POST", "/sandboxes", {**asked, "seed": seed} if seed else asked)
        if status == 201:
            return _admission(name, answer)
        error, hint = _text_field(answer, "error"), _text_field(answer, "hint")
        # 409 also stands for other conflicts, so the proxy is asked for the name.
        if status == 409 and self._knows(name):
            raise SandboxExistsError(
                f"the proxy has a sandbox {name} already", "remove it, or choose another name"
            )
        # A client error is the caller's mistake; everything else is a refusal of the proxy.
        if status == 400:
            raise SpecError(f"the proxy refused the sandbox {name}: {error}", hint)
        raise GatewayRefusedError(f"the proxy refused the sandbox {name}: {error}", hint)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        self._wait_for_start()
        with _connect(self._handover) as sock, sock.makefile("rb") as answers:
            for item in listeners:
                # Each listener has a line, answered before the next: a refusal names its port.
                try:
                    socket.send_fds(sock, [_offer_line(name, item)], [item.sock.fileno()])
                    answer = _parse_answer(answers.readline(_MAX_ANSWER_BYTES))
                except (OSError, ValueError) as error:
                    raise _no_answer_error(no_answer(self._handover, error)) from None
                if answer.get("ok") is not True:
                    reason = _text_field(answer, "error")
                    raise GatewayRefusedError(
                        f"the proxy refused port {item.port} of the sandbox {name}: {reason}",
                        "see `egress status`",
                    )

    def bar(self, name: str, bar: Bar) -> None:
        status, answer = self._ask("POST", "/bar", {"name": name, "canary": bar == "canary"})
        if status != HTTPStatus.OK:
            reason = _text_field(answer, "error")
            raise GatewayRefusedError(
                f"the proxy did not revoke the sandbox {name}: {reason}", "see `egress status`"
            )

    def dismiss(self, name: str) -> None:
        with suppress(GatewayError):
            self._ask("DELETE", f"/sandboxes/{name}", {})

    def canary_offenders(self) -> frozenset[str]:
        """The sandboxes that were stopped for a canary: their access is revoked. Raises `GatewayError`."""
        _, answer = self._ask("GET", "/stopped", {})
        return _names_field(answer, "sandboxes")

    def bars(self) -> dict[str, Bar]:
        """The sandboxes that the proxy knows, and why one has no access. Raises `GatewayError`."""
        _, answer = self._ask("GET", "/stopped", {})
        access, offenders = answer.get("access"), _names_field(answer, "sandboxes")
        found: dict[str, Bar] = {}
        for name, has_access in access.items() if isinstance(access, dict) else ():
            found[str(name)] = "" if has_access is True else "canary" if name in offenders else "killed"
        return found

    def revoked_sandboxes(self) -> frozenset[str]:
        """The sandboxes whose access is revoked. Raises `GatewayError`, also for an answer without them."""
        _, answer = self._ask("GET", "/status", {})
        killed = answer.get("killed")
        found = killed.get("sandbox") if isinstance(killed, dict) else None
        if not isinstance(found, list):
            raise GatewayRefusedError(
                "the proxy does not say which sandboxes are revoked",
                "run proxy and runtime in the same version of egress",
            )
        return frozenset(map(str, found))

    def open_liveness(self) -> LivenessConnection:
        self._wait_for_start()
        return _LivenessSocket(_connect(self._handover, timeout=None))

    def _wait_for_start(self) -> None:
        self._await_proxy()
        # Only for the first start: a proxy that ended is missed by its absence.
        self._await_proxy = _is_there_already

    def _knows(self, name: str) -> bool:
        status, answer = self._ask("GET", "/status", {})
        there = answer.get("sandboxes")
        return (
            status == 200
            and isinstance(there, list)
            and any(isinstance(each, dict) and each.get("name") == name for each in there)
        )

    def _ask(self, method: str, target: str, body: Mapping[str, object]) -> JsonAnswer:
        self._wait_for_start()
        try:
            return ask_proxy(self._folder, method, target, body)
        except UnreadableError as error:
            raise _no_answer_error(error) from None


class _LivenessSocket:
    """A connection that carries no data."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def wait(self) -> None:
        with suppress(OSError):
            while self._sock.recv(64):
                pass

    def close(self) -> None:
        # Closing alone does not wake a thread that waits in recv.
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
    """The fields of an answer. Raises `ValueError` for an incomplete one."""
    found = json.loads(data)
    return found if isinstance(found, dict) else {}


def _text_field(answer: Mapping[str, object], key: str) -> str:
    found = answer.get(key)
    return found if isinstance(found, str) else ""


def _names_field(answer: Mapping[str, object], key: str) -> frozenset[str]:
    found = answer.get(key)
    return (
        frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()
    )


def _admission(name: str, answer: Mapping[str, object]) -> Admission:
    stand_ins = answer.get("placeholders")
    found = {
        secret: {str(form): str(value) for form, value in forms.items()}
        for secret, forms in (stand_ins.items() if isinstance(stand_ins, dict) else ())
        if isinstance(forms, dict)
    }
    authority = _text_field(answer, "ca")
    # Checked although the proxy is trusted: a private key must never enter a sandbox.
    if "BEGIN CERTIFICATE" not in authority or "PRIVATE KEY" in authority:
        raise GatewayRefusedError(
            f"the proxy sent no authority for the sandbox {name}",
            "run proxy and runtime in the same version of egress",
        )
    return Admission(name, authority, found, _canaries(answer), _text_field(answer, "seed"))


def _canaries(answer: Mapping[str, object]) -> tuple[PlantedCanary, ...]:
    found = answer.get("canaries")
    each = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return tuple(
        PlantedCanary(*(_text_field(item, key) for key in ("name", "value", "env", "file", "content")))
        for item in each
    )
