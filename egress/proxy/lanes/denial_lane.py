"""The denial lane: a TLS client of a denied host is told why, inside of its own TLS.

A client that is refused at CONNECT, or by an alert, shows its user a number and no reason. Here TLS ends in
the proxy, with a certificate of the sandbox's own authority for the denied name, and each request is answered
with the page of the denial. Nothing is resolved, dialled or fetched: the lane has no dialer, its exchanges
are denied from the start, and an order for an upstream or a secret ends the connection.

It must not decide about a host. A change of the rules closes its connections, and the clients ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Never, override

from mitmproxy.proxy import commands

from egress.addons.guard import HookGuard
from egress.addons.http_layers import FetchSecrets
from egress.addons.tls_hooks import TlsHooks
from egress.credentials import CanaryScan
from egress.exchange import DeniedExchange, Exchange
from egress.proxy.lanes.connection import CarriedConnection, DeniedConnection
from egress.proxy.lanes.intercept_handler import InterceptHandler
from egress.proxy.lanes.intercept_lane import InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.relay_services import RelayServices, sandbox_of
from egress.rules.decide.policy import Policy
from egress.types import HostDecision, Secret


class DenialLane:
    """Carries denied connections; the `InterceptServices` of their handlers, without a dialer."""

    def __init__(self, lane: InterceptLane) -> None:
        """`lane` lends its hooks, so that there is one way to end TLS."""
        self._lane = lane
        # A client that says nothing after its handshake holds a place, and nothing is to be waited for.
        relay = replace(lane.limits.relay, keep_alive=lane.limits.relay.head)
        self.limits: InterceptLimits = replace(lane.limits, relay=relay)

    @property
    def guard(self) -> HookGuard:
        return self._lane.guard

    @property
    def tls(self) -> TlsHooks:
        return self._lane.tls

    def can_explain(self, sandbox: str, host: str, decision: HostDecision) -> bool:
        """Tell whether a client of this host can be shown a certificate that it trusts.

        Not for a host whose TLS the rules leave closed (`intercept: never`), nor for an address, nor for a
        name that the authority of the sandbox is not permitted to sign.
        """
        known = self._lane.engine.sandboxes.get(sandbox)
        if known is None or decision.allowed or not decision.intercept:
            return False
        return known.authority.can_sign(host, self._lane.engine.clock.now())

    async def carry(
        self,
        denied: DeniedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None:
        """Carry a connection to its end; `ahead` is what was read of it already."""
        sandbox = sandbox_of(self._lane.engine, denied)
        handler = DenialHandler(self, DenialServices(self._lane.engine, denied, sandbox), denied)
        await self._lane.serve(handler, reader, writer, ahead)

    # Services of the handlers

    async def dial(self, admitted: CarriedConnection) -> Never:
        """Refuse: a denied connection leads nowhere."""
        raise TypeError(f"the denied connection {admitted.id} asked for an upstream")

    def still_allows(
        self, admitted: CarriedConnection, policy: Policy, now: int, addresses: Collection[str] = ()
    ) -> bool:
        """Return False: it was never allowed."""
        del admitted, policy, now, addresses
        return False


class DenialServices(RelayServices):
    """The surroundings of a relay whose every exchange is denied."""

    @override
    def new_exchange(self) -> Exchange:
        """Make an exchange that is denied as the connection is; canaries in its head are still noticed."""
        engine, sandbox = self.engine, self.sandbox
        canaries = sandbox.canaries(engine.policy)
        return DeniedExchange(
            self.admitted.decision,
            engine.policy,
            self.admitted.identity,
            self.admitted.destination,
            needles=self.needles(engine.policy),
            canaries=None if canaries is None else CanaryScan(canaries),
        )

    @override
    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        del policy, names, unscrubbed
        raise TypeError("a denied exchange asked for a secret")

    @override
    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> Never:
        del method, secrets
        raise TypeError(f"the denied exchange {request} was about to be sent")


class DenialHandler(InterceptHandler):
    """A client connection on which nothing is served but the reason of its denial."""

    def __init__(self, lane: DenialLane, services: DenialServices, denied: DeniedConnection) -> None:
        super().__init__(lane, services)
        self._policy = denied.policy
        self.reason = denied.decision.code

    @override
    def recheck(self, policy: Policy, now: int) -> None:
        # The client asks again, and is decided about by the new rules.
        if policy is not self._policy:
            self.close(self.admitted.decision.code)

    @override
    def leave(self) -> None:
        try:
            super().leave()
        finally:
            # A client may finish its handshake and ask for nothing: that was a denial all the same.
            if not self.services.finished:
                self._refuse(self.admitted.decision.code)

    @override
    def _carry_out_rare(self, command: commands.Command) -> None:
        if isinstance(command, commands.OpenConnection | FetchSecrets):
            raise TypeError("a denied connection asked for an upstream or a secret")
        super()._carry_out_rare(command)

    @override
    def _refuse(self, code: str) -> None:
        """Record the denial, whatever ended the connection before its request; a fault of ours stays one."""
        super()._refuse(code if code == "internal" else self.admitted.decision.code)
