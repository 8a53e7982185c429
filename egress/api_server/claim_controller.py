"""Makes a sandbox for each claim, and removes it with the claim, as the controller of agent-sandbox does.

A claim is accepted at once, and its sandbox is made afterwards: the condition `Ready` tells what became of
it. The sandbox carries a record of its claim. So claims come back with their sandboxes when the server starts
again; one that never got a sandbox does not.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from egress.api.schema import SandboxView
from egress.api_server.call import ApiContext, problem_from
from egress.api_server.claim_schema import (
    CLAIM_GROUP,
    Claim,
    ClaimedSandbox,
    ClaimLifecycle,
    ClaimManifest,
    ClaimSpec,
    ClaimStatus,
    Condition,
    ConditionStatus,
    ObjectMetadata,
    PodMetadata,
    PoolReference,
)
from egress.api_server.claim_table import ClaimKey, ClaimTable, key_of
from egress.api_server.claim_wishes import (
    OWN_LABELS,
    RECORD_LABEL,
    ClaimRecord,
    UnreadyClaimError,
    check_manifest,
    claim_settings,
)
from egress.api_server.claimed_sandboxes import NAMESPACE_LABEL, OWNER
from egress.api_server.sandboxes import usual_spec
from egress.errors import EgressError
from egress.fleet.api_values import lifetime_from, sandbox_view
from egress.fleet.errors import SandboxDiffersError
from egress.runtime.errors import SandboxExistsError, SandboxNotFoundError
from egress.sandbox import capabilities

MAX_CLAIMS: Final = 1000
LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks of watches at the sandboxes: nothing tells them of one that was removed."""
NOWHERE: Final = "192.0.2.1"
"""The address that a sandbox has for clients: one of no machine, since sandboxes have none of their own."""
_MAX_NAME_IN_SANDBOX: Final = 50


class ClaimQuotaError(EgressError):
    """There are as many claims as the server keeps."""

    code = "api.forbidden"


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the times of claims are those of the machine


class ClaimController:
    """The claims of one server. Its methods run in the loop of the server, and block in threads."""

    def __init__(
        self,
        context: ApiContext,
        now: Callable[[], datetime] = _now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.table = ClaimTable()
        self.context = context
        self._now = now
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._making: dict[ClaimKey, asyncio.Task[None]] = {}
        self._loaded: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Bring back claims at the first call, and forget those whose sandboxes have gone."""
        if self._loaded is None or (self._loaded.done() and self._loaded.exception() is not None):
            self._loaded = asyncio.create_task(self._load())
        await asyncio.shield(self._loaded)
        self._looked = self._monotonic()
        # Asked before the fleet: a sandbox that is made meanwhile is missing in an older answer.
        named = {key_of(claim): claim for claim in self.table.all()}
        there = {info.name for info in await self.context.in_thread(self.context.fleet.list)}
        for key, claim in named.items():
            if claim.status.sandbox is None or claim.status.sandbox.name in there:
                continue
            if self.table.find(key) == claim and claim.metadata.deletion_timestamp is None:
                self.table.drop(key)

    async def look(self) -> None:
        """Refresh, unless that was done a moment ago: many watches ask for it at a time."""
        if self._monotonic() - self._looked >= LOOK_INTERVAL:
            await self.refresh()

    async def create(self, namespace: str, asked: ClaimManifest) -> Claim:
        """Accept a claim. Raises `SpecError`, `SandboxExistsError` and `ClaimQuotaError`."""
        check_manifest(namespace, asked)
        await self.refresh()
        key = (namespace, asked.metadata.name)
        if self.table.find(key) is not None:
            raise SandboxExistsError(f"sandboxclaims {key[1]!r} already exists", "delete it first")
        if len(self.table) >= MAX_CLAIMS:
            raise ClaimQuotaError(f"there are {MAX_CLAIMS} claims already", "delete some of them")
        claim = self.table.put(_claim(namespace, asked, self._stamp()))
        self._making[key] = asyncio.create_task(self._make(key, asked.spec))
        return claim

    async def delete(self, key: ClaimKey, uid: str | None) -> Claim:
        """Remove a claim and its sandbox. Raises `SandboxNotFoundError` and `SandboxDiffersError`."""
        await self.refresh()
        claim = self.find(key)
        if uid is not None and claim.metadata.uid != uid:
            raise SandboxDiffersError("the claim has another uid", "look at the claim again")
        if claim.metadata.deletion_timestamp is None:
            stamped = replace(claim.metadata, deletion_timestamp=self._stamp())
            self.table.put(replace(claim, metadata=stamped))
        # First: a sandbox that is being made could appear behind its removal.
        if making := self._making.get(key):
            await asyncio.wait({making})
        claim = self.table.find(key) or claim
        if claim.status.sandbox is not None:
            with suppress(SandboxNotFoundError):
                await self.context.in_thread(self.context.fleet.remove, claim.status.sandbox.name)
        # The uid tells a later claim of the same name, which another request may have made meanwhile.
        if (left := self.table.find(key)) is not None and left.metadata.uid == claim.metadata.uid:
            self.table.drop(key)
        return claim

    def find(self, key: ClaimKey) -> Claim:
        """Return a claim. Raises `SandboxNotFoundError`."""
        claim = self.table.find(key)
        if claim is None:
            raise SandboxNotFoundError(f"sandboxclaims {key[1]!r} not found", "list the claims")
        return claim

    async def _make(self, key: ClaimKey, asked: ClaimSpec) -> None:
        claim = self.find(key)
        status: ClaimStatus
        try:
            name = await self.context.in_thread(self._make_sandbox, claim, asked)
        except UnreadyClaimError as unready:
            status = ClaimStatus(conditions=(self._ready("False", unready.reason, unready.message),))
        except Exception as error:  # noqa: BLE001 - whatever it is, the claim has to tell it
            problem = problem_from(error)
            message = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
            status = ClaimStatus(conditions=(self._ready("False", "InvalidConfiguration", message),))
        else:
            ready = self._ready("True", "DependenciesReady", "the sandbox takes commands")
            status = ClaimStatus(conditions=(ready,), sandbox=ClaimedSandbox(name=name, pod_ips=(NOWHERE,)))
        finally:
            del self._making[key]
        # It may be on its way out meanwhile, and says so.
        self.table.put(replace(self.find(key), status=status))

    def _make_sandbox(self, claim: Claim, asked: ClaimSpec) -> str:
        fleet = self.context.fleet
        settings = claim_settings(claim, asked, self.context.pools, self._now())
        name = f"{claim.metadata.name[:_MAX_NAME_IN_SANDBOX].rstrip('.-')}-{secrets.token_hex(4)}"
        spec = usual_spec(name, settings, settings.image or capabilities.choose_image(fleet, None))
        fleet.create(spec, lifetime_from(settings))
        try:
            fleet.start(name)
        except BaseException:
            # No claim names it, so nobody would remove it.
            fleet.remove(name)
            raise
        return name

    async def _load(self) -> None:
        for view in await self.context.in_thread(self._list_claimed):
            with suppress(msgspec.MsgspecError, KeyError):
                self.table.put(self._claim_of(view))

    def _list_claimed(self) -> list[SandboxView]:
        found = []
        for info in self.context.fleet.list():
            with suppress(SandboxNotFoundError):
                found.append(sandbox_view(self.context.fleet.status(info.name)))
        return [view for view in found if view.owner == OWNER]

    def _claim_of(self, view: SandboxView) -> Claim:
        """Return the claim of a sandbox. Raises `KeyError` and `MsgspecError` for one without its record."""
        record = msgspec.json.decode(view.labels[RECORD_LABEL], type=ClaimRecord)
        end = ClaimLifecycle(shutdown_time=record.shutdown, shutdown_policy="Delete")
        wishes = PodMetadata(annotations=record.annotations)
        spec = ClaimSpec(
            warm_pool_ref=PoolReference(name=record.pool),
            lifecycle=end if record.shutdown else None,
            additional_pod_metadata=wishes if record.annotations else None,
        )
        metadata = ObjectMetadata(
            name=record.name,
            namespace=view.labels[NAMESPACE_LABEL],
            uid=record.uid,
            resource_version="",
            creation_timestamp=stamp_of(view.created or self._now()),
            labels={key: value for key, value in view.labels.items() if key not in OWN_LABELS},
        )
        ready = self._ready("True", "DependenciesReady", "the sandbox takes commands")
        status = ClaimStatus(conditions=(ready,), sandbox=ClaimedSandbox(name=view.name, pod_ips=(NOWHERE,)))
        return Claim(
            api_version=CLAIM_GROUP, kind="SandboxClaim", metadata=metadata, spec=spec, status=status
        )

    def _ready(self, status: ConditionStatus, reason: str, message: str) -> Condition:
        return ready_condition(status, reason, message, self._stamp())

    def _stamp(self) -> str:
        return stamp_of(self._now())


def ready_condition(status: ConditionStatus, reason: str, message: str, since: str) -> Condition:
    """Return the condition that clients wait for."""
    return Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=since)


def stamp_of(moment: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _claim(namespace: str, asked: ClaimManifest, stamp: str) -> Claim:
    metadata = ObjectMetadata(
        name=asked.metadata.name,
        namespace=namespace,
        uid=str(uuid.uuid4()),
        resource_version="",
        creation_timestamp=stamp,
        labels=asked.metadata.labels,
        annotations=asked.metadata.annotations,
    )
    # Without the variables: a value may be a secret, and the claim is refused for them anyway.
    spec = replace(asked.spec, env=(), volume_claim_templates=())
    return Claim(api_version=CLAIM_GROUP, kind="SandboxClaim", metadata=metadata, spec=spec)
