"""The sandboxes of a cluster, known by the addresses of their pods: they come and go with the identity map.

A sandbox is made when the first connection of one of its pods is accepted, and ends when the map says that
its last pod has lost what it had. So there are never more of them than live pods. All have the authority and
the keys of the proxy: pods trust one certificate, from a template that does not know who will use it.

A connection keeps the identity that it was accepted with. When that changes, the connection is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Protocol

from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.pod_identity import Annotations, IdentityFault, IdentityState, PodIdentity
from egress.kubernetes.watch_events import WatchedPod
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.pods.pod_profile import ProfileChoice, choose_profile
from egress.rules.decide.outbound import NO_CHOICE
from egress.shares.pool import Resource
from egress.types import Identity, Parameters, Workload

POOLED_CODE: Final = "identity.pooled"
GONE_CODE: Final = "identity.gone"
CHANGED_CODE: Final = "identity.changed"
MISMATCH_CODE: Final = "identity.mismatch"
REVOKED_CODE: Final = "access.withdrawn"
_POLL_INTERVAL: Final = 0.02
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds for connections that were cut to be recorded."""


class CuttableConnections(Protocol):
    """The connections of the ingress, or of the name servers."""

    def cut(self, is_meant: Callable[[PeerIdentity], bool], code: str) -> None: ...


class PodAsker(Protocol):
    """Asks the API server about an address, and tells the map what it answers."""

    async def ask(self, peer: str) -> bool: ...


@dataclass(slots=True)
class _PodSandbox:
    """A sandbox that has connected."""

    served: ServedSandbox
    holder: tuple[str, str, Annotations, str | None, Parameters]
    """Sandbox, or plain pod, and claim by UID, wishes and rights: whoever has others is another sandbox."""
    pods: set[str] = field(default_factory=set)
    """The UIDs of its pods that have connected."""


class PodSandboxes:
    """The `PeerIdentities` of a cluster."""

    def __init__(
        self, engine: ProxyEngine, identities: IdentityMap, own: ServedSandbox, gateway: Workload
    ) -> None:
        """`own` is the sandbox of the settings, under whose name peers without rights are recorded.

        `gateway` has the namespace, and the name of this pod.
        """
        self._engine = engine
        self._map = identities
        self._own = own
        self._gateway = gateway
        self._sandboxes: dict[str, _PodSandbox] = {}
        self._sandbox_of_pod: dict[str, str] = {}
        """The names of the sandboxes above, by the UIDs of their pods."""
        self._revoked: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._doors: tuple[CuttableConnections, ...] = ()
        self.asker: PodAsker | None = None
        """Asked about peers that are not known; set once the API server is."""
        self.on_ended: Callable[[str], None] = lambda _name: None
        """Told the name of a sandbox that has ended."""
        self.on_refused: Callable[[PodIdentity, ProfileChoice], None] = lambda _found, _choice: None
        """Told of wishes that are refused, at each connection."""

    def attach(self, *doors: CuttableConnections) -> None:
        """Cut connections here, too, that are not inside a lane."""
        self._doors = doors

    # Questions of the ingress

    def identify(self, peer: str) -> PeerIdentity:
        """Return whose a connection from this address is that is accepted now."""
        found = self._map.find(peer)
        if not isinstance(found, PodIdentity):
            pod = self._map.pod_at(peer)
            return self._without_rights(
                found, self._workload_of(pod) if isinstance(pod, WatchedPod) else None
            )
        workload = self._workload(found)
        if found.state is IdentityState.POOLED:
            return self._without_rights(POOLED_CODE, workload)
        # Peers without rights go by that name.
        if found.sandbox == self._own.identity.sandbox:
            return self._without_rights(IdentityFault.AMBIGUOUS, workload)
        choice = choose_profile(found, self._engine.policy)
        if choice.code:
            self.on_refused(found, choice)
            return self._without_rights(choice.code, workload)
        served = self._serve(found, choice)
        code = REVOKED_CODE if found.sandbox in self._revoked else ""
        return PeerIdentity(replace(served.identity, workload=workload), code)

    def gate_code(self, peer: str, uid: str) -> str:
        """Return why this peer is not the pod of this UID; empty if it is.

        A pod whose sandbox is pooled, or not claimed yet, is known all the same: its rights come later.
        """
        pod = self._map.pod_at(peer)
        if not isinstance(pod, WatchedPod):
            return pod
        if pod.metadata.uid != uid:
            return MISMATCH_CODE
        is_sandbox = pod.metadata.belongs_to_agent_sandbox or pod.metadata.is_workload
        return "" if is_sandbox else IdentityFault.UNOWNED

    async def ask_again(self, peer: str) -> PeerIdentity:
        """Return the same after the API server was asked about a peer that no watch has told of."""
        has_answer = self.asker is not None and await self.asker.ask(peer)
        who = self.identify(peer)
        if who.code == IdentityFault.UNKNOWN and not has_answer:
            return replace(who, code=IdentityFault.STALE)
        return who

    # Changes

    def cut(self, pods: frozenset[str]) -> None:
        """End the connections of pods that have lost what they had; told by the watches."""
        for uid in pods:
            self._cut_pod(uid, CHANGED_CODE if self._map.has_pod(uid) else GONE_CODE)

    def _cut_pod(self, uid: str, code: str) -> None:
        carried = self._engine.live.of_pod(uid)
        for each in carried:
            each.close(code)
        for door in self._doors:
            door.cut(lambda who: who.pod_uid == uid, code)
        name = self._sandbox_of_pod.pop(uid, None)
        if name is not None:
            sandbox = self._sandboxes[name]
            sandbox.pods.discard(uid)
            if not sandbox.pods:
                self._end(name, code, len(carried))

    def _end(self, name: str, code: str, cut: int) -> None:
        sandbox = self._sandboxes.pop(name)
        if self._engine.sandboxes.get(name) is sandbox.served:
            del self._engine.sandboxes[name]
        self._revoked.discard(name)
        # What it was granted must not pass to a later sandbox of its name, nor what was revoked.
        self._engine.set_overlay(name, None)
        self._engine.set_handlers(name, NO_CHOICE)
        self.on_ended(name)
        self._record("sandbox.removed", sandbox.served.identity, connections=cut, reason=code)
        closing = asyncio.get_running_loop().create_task(self._forget_when_closed(name))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _forget_when_closed(self, name: str) -> None:
        """Forget what was counted for a sandbox, once its connections are recorded."""
        engine = self._engine
        end = engine.clock.monotonic() + _CLOSE_TIMEOUT
        while engine.pool.count(name, Resource.CLIENTS) and engine.clock.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_INTERVAL)
        if name not in self._sandboxes:
            engine.counts.forget(name)
            engine.turns.forget(name)

    # Revocation by the operator, or by a canary

    def shut(self, name: str) -> None:
        """Refuse whatever comes from a sandbox; what is inside a lane is closed by the caller."""
        if name in self._sandboxes:
            self._revoked.add(name)
            for door in self._doors:
                door.cut(lambda who: who.identity.sandbox == name, REVOKED_CODE)

    def reopen(self, name: str) -> None:
        """Serve a sandbox again."""
        self._revoked.discard(name)

    # Inside

    def _serve(self, found: PodIdentity, choice: ProfileChoice) -> ServedSandbox:
        """Return the sandbox of an identity; it is made with its first connection."""
        rights = (found.annotations, choice.profile, choice.parameters)
        holder = (found.sandbox_uid or found.pod_uid, found.claim_uid, *rights)
        known = self._sandboxes.get(found.sandbox)
        if known is not None and known.holder != holder:
            self._cut_all(known)
            known = None
        if known is None:
            identity = Identity(
                found.sandbox, choice.profile, choice.parameters, workload=self._workload(found)
            )
            served = ServedSandbox(identity, self._own.authority, self._own.placeholder_key)
            known = self._sandboxes[found.sandbox] = _PodSandbox(served, holder)
            self._engine.sandboxes[found.sandbox] = served
            self._record(
                "sandbox.added", identity, profile=identity.profile, authority=served.authority.fingerprint
            )
        known.pods.add(found.pod_uid)
        self._sandbox_of_pod[found.pod_uid] = found.sandbox
        return known.served

    def _cut_all(self, known: _PodSandbox) -> None:
        """End a sandbox whose name another one has now."""
        for uid in list(known.pods):
            self._cut_pod(uid, CHANGED_CODE)

    def _without_rights(self, code: str, workload: Workload | None) -> PeerIdentity:
        return PeerIdentity(replace(self._own.identity, workload=workload or self._gateway), code)

    def _workload(self, found: PodIdentity) -> Workload:
        return replace(
            self._gateway,
            pod=found.pod,
            pod_uid=found.pod_uid,
            claim=found.claim,
            claim_uid=found.claim_uid,
        )

    def _workload_of(self, pod: WatchedPod) -> Workload:
        return replace(self._gateway, pod=pod.metadata.name, pod_uid=pod.metadata.uid)

    def _record(self, kind: str, identity: Identity, **facts: str | int | None) -> None:
        named = {key: value for key, value in asdict(identity.workload or self._gateway).items() if value}
        self._engine.audit.event(
            kind, sandbox=identity.sandbox, **facts, **named, policy=self._engine.policy.digest
        )
