"""The addresses that a proxy would listen on: free, its own already, or taken, and by whom.

Each is opened by the code that opens it at a start, and closed at once: nobody is let in meanwhile. What the
running proxy has open is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, ip_address
from typing import Final, Literal

from egress.doctor.diagnosis import Diagnosis, from_error, ok
from egress.doctor.proxy_setup import ProxySetup
from egress.doctor.running_proxy import RunningProxy
from egress.errors import UnreadableError
from egress.proxy.ingress.configured_listeners import ConfiguredListeners, ports_of
from egress.proxy.ingress.listener import Listener
from egress.proxy.settings import ListenAddress, Settings

Kind = Literal["proxy", "transparent", "dns"]

_CLOSED: Final = {"listen": (), "transparent": (), "dns": ()}


async def check(patient: ProxySetup, running: RunningProxy) -> list[Diagnosis]:
    """Look at every address of the settings."""
    return [await _at(kind, at, patient.values, running) for kind, at in _wanted(patient)]


def open_at(patient: ProxySetup, running: RunningProxy) -> tuple[ListenAddress, ...]:
    """Where clients find the proxy: where the running one is, and where the settings put it."""
    of_settings = [at for at in patient.values.listen if at.port]
    return tuple(dict.fromkeys([*of_settings, *heard_at(running)]))


def heard_at(running: RunningProxy) -> tuple[ListenAddress, ...]:
    """Where the running proxy listens, by its own account; nowhere when it does not answer."""
    return tuple(at for text in sorted(running.open_at) if (at := _read(text)) is not None)


def _wanted(patient: ProxySetup) -> Iterator[tuple[Kind, ListenAddress]]:
    values, policy = patient.values, patient.policy
    for at in values.listen:
        yield "proxy", at
    for address in values.transparent:
        for port in sorted(ports_of(policy)) if policy else ():
            yield "transparent", ListenAddress(str(address), port)
    for at in values.dns:
        yield "dns", at


async def _at(kind: Kind, at: ListenAddress, values: Settings, running: RunningProxy) -> Diagnosis:
    name = f"{kind} {at}"
    if not at.port:
        return ok(name, "the kernel chooses the port")
    if str(at) in running.open_at:
        return ok(name, "the running proxy listens there")
    door = ClosedIngress()
    try:
        await ConfiguredListeners(door, door, _alone(kind, at, values), b"", lambda: {at.port}).open()
    except UnreadableError as error:
        return from_error(name, error)
    return ok(name, "free")


def _alone(kind: Kind, at: ListenAddress, values: Settings) -> Settings:
    """The settings with this address and no other; what names are answered with stays the same."""
    field = {"proxy": "listen", "transparent": "transparent", "dns": "dns"}[kind]
    this = (ip_address(at.host),) if kind == "transparent" else (at,)
    return values.model_copy(update={**_CLOSED, "dns_answer": values.answer, field: this})


class ClosedIngress:
    """A door, and names, that let nobody in: what is opened is closed at once."""

    async def open(self, listener: Listener, answer: IPv4Address | None = None) -> tuple[str, int]:  # noqa: ARG002 - the contract
        try:
            host, port = listener.sock.getsockname()[:2]
        finally:
            listener.sock.close()
        return host, port

    async def close_sandbox(self, sandbox: str) -> None:
        """Do nothing: nothing is open."""

    async def close_listeners(self, listeners: Collection[Listener]) -> None:
        """Do nothing, too."""


def _read(text: str) -> ListenAddress | None:
    """An address of an answer; None for a text that is none."""
    host, _, port = text.rpartition(":")
    try:
        return ListenAddress(str(ip_address(host.strip("[]"))), int(port))
    except ValueError:
        return None
