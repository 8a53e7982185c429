"""Check the addresses a proxy would listen on: free, used by the proxy itself, or taken by another program.

Each is opened by the code of the start, and closed at once: no connection is accepted. Listeners of the
running proxy are left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, ip_address
from typing import Final, Literal

from egress.doctor.diagnosis import Diagnosis, from_error, ok
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.running_proxy import RunningProxy
from egress.errors import UnreadableError
from egress.proxy.ingress.configured_listeners import ConfiguredListeners, ports_of
from egress.proxy.ingress.listener import Listener
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import Settings

Kind = Literal["proxy", "transparent", "dns"]

_CLOSED: Final = {"listen": (), "transparent": (), "dns": ()}


async def check(setup: ProxyUnderCheck, running: RunningProxy) -> list[Diagnosis]:
    """Check every address of the settings."""
    return [await _at(kind, at, setup.values, running) for kind, at in _wanted(setup)]


def open_at(setup: ProxyUnderCheck, running: RunningProxy) -> tuple[ListenAddress, ...]:
    """Return the addresses where clients find the proxy: by the running proxy, and by the settings."""
    of_settings = [at for at in setup.values.listen if at.port]
    return tuple(dict.fromkeys([*of_settings, *heard_at(running)]))


def heard_at(running: RunningProxy) -> tuple[ListenAddress, ...]:
    """Return the listeners that the running proxy reports; empty if it does not answer."""
    return tuple(at for text in sorted(running.open_at) if (at := _read(text)) is not None)


def _wanted(setup: ProxyUnderCheck) -> Iterator[tuple[Kind, ListenAddress]]:
    values, policy = setup.values, setup.policy
    for at in values.listen:
        yield "proxy", at
    for address in values.transparent:
        # Transparent listeners take the ports that the rules open: without rules none is known.
        for port in sorted(ports_of(policy)) if policy else ():
            yield "transparent", ListenAddress(str(address), port)
    for at in values.dns:
        yield "dns", at


async def _at(kind: Kind, at: ListenAddress, values: Settings, running: RunningProxy) -> Diagnosis:
    name = f"{kind} {at}"
    if not at.port:
        return ok(name, "the kernel picks a port")
    # Opening would fail and prove little: the proxy itself holds the port.
    if str(at) in running.open_at:
        return ok(name, "used by the running proxy")
    door = ClosedIngress()
    try:
        await ConfiguredListeners(door, door, _alone(kind, at, values), b"", lambda: {at.port}).open()
    except UnreadableError as error:
        return from_error(name, error)
    return ok(name, "free")


def _alone(kind: Kind, at: ListenAddress, values: Settings) -> Settings:
    """Return settings with only this address; the DNS answer stays the same."""
    field = {"proxy": "listen", "transparent": "transparent", "dns": "dns"}[kind]
    this = (ip_address(at.host),) if kind == "transparent" else (at,)
    return values.model_copy(update={**_CLOSED, "dns_answer": values.answer, field: this})


class ClosedIngress:
    """An ingress and DNS that admit no client: each listener is closed at once."""

    async def open(self, listener: Listener, answer: IPv4Address | None = None) -> tuple[str, int]:  # noqa: ARG002 - the contract
        try:
            host, port = listener.sock.getsockname()[:2]
        finally:
            listener.sock.close()
        return host, port

    async def close_sandbox(self, sandbox: str) -> None:
        """Do nothing: no connection is open."""

    async def close_listeners(self, listeners: Collection[Listener]) -> None:
        """Do nothing: no listener is open."""


def _read(text: str) -> ListenAddress | None:
    """Parse an address of the status; None for any other text."""
    # Split from the right, because an IPv6 address contains colons itself.
    host, _, port = text.rpartition(":")
    try:
        return ListenAddress(str(ip_address(host.strip("[]"))), int(port))
    except ValueError:
        return None
