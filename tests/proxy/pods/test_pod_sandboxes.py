"""Sandboxes of a cluster come with their first connection and go with their last pod, and leave nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.watch_events import EventType, WatchKind
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.pods import pod_sandboxes
from egress.proxy.pods.pod_sandboxes import PodSandboxes
from egress.rules.compile.grants import request_terms
from egress.rules.decide.overlay import Grant, Overlay
from egress.shares.pool import Resource
from egress.types import Limit, Place, Rate, Workload
from tests.proxy.injecting_proxy import certs
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack
from tests.unit.kubernetes.watch_samples import (
    Json,
    claim,
    event,
    listed,
    owner,
    plain_pod,
    pod,
    sandbox,
    template,
)

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
TEMPLATES = WatchKind.TEMPLATES
ADDRESS, OTHER = "10.0.0.1", "10.0.0.2"
RULES = """\
version: 1
parameters:
  repo: {pattern: "acme/[a-z]+"}
profiles:
  reviewer: {hosts: [api.example.test]}
  author: {hosts: [api.example.test]}
hosts:
  api.example.test: {paths: ["/{param.repo}", /all]}
"""


class Door:
    """Connections at a door, which notes what is cut."""

    def __init__(self) -> None:
        self.waiting: list[PeerIdentity] = []
        self.cuts: list[tuple[str, str]] = []

    def cut(self, is_meant: Callable[[PeerIdentity], bool], code: str) -> None:
        self.cuts += [(each.identity.sandbox, code) for each in self.waiting if is_meant(each)]


class Cluster:
    """The map, and the sandboxes that come of it."""

    def __init__(self, stack: ProxyStack) -> None:
        self.stack = stack
        self.map = IdentityMap()
        for kind in WatchKind:
            self.map.replace(listed(kind, 0))
        own = self.engine.sandboxes[SANDBOX]
        self.pods = PodSandboxes(self.engine, self.map, own, Workload("agents", replica="egress-0"))
        self.door = Door()
        self.pods.attach(self.door)
        self.ended: list[str] = []
        self.pods.on_ended = self.ended.append

    @property
    def engine(self) -> ProxyEngine:
        return self.stack.engine

    def tell(self, kind: WatchKind, value: Json, change: EventType = EventType.MODIFIED) -> None:
        self.pods.cut(self.map.apply(event(kind, value, change)))

    def claim(self, version: int = 1, **fields: str) -> None:
        self.tell(CLAIMS, claim("c", version, "s", **fields))
        self.tell(SANDBOXES, sandbox("s", 1, owner("SandboxClaim", "c")))
        self.tell(PODS, pod("p", 1, ADDRESS))

    def events(self, kind: str) -> list[dict[str, object]]:
        return [line for line in self.stack.lines() if line["event"] == kind]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        yield Cluster(stack)


async def test_a_sandbox_is_made_with_the_first_connection_of_its_pod(cluster: Cluster) -> None:
    cluster.claim(profile="reviewer")
    assert set(cluster.engine.sandboxes) == {SANDBOX}
    who = cluster.pods.identify(f"::ffff:{ADDRESS}")
    assert (who.code, who.identity.sandbox, who.identity.profile) == ("", "s", "reviewer")
    assert who.identity.workload == Workload("agents", "p", "p-uid", "c", "c-uid", "egress-0")
    served = cluster.engine.sandboxes["s"]
    # Pods trust one certificate, and hold the same placeholders, by their template.
    own = cluster.engine.sandboxes[SANDBOX]
    assert (served.authority, served.placeholder_key) == (own.authority, own.placeholder_key)
    assert cluster.pods.identify(ADDRESS) == who
    [added] = cluster.events("sandbox.added")
    assert (added["sandbox"], added["claim"], added["profile"]) == ("s", "c", "reviewer")


async def test_whoever_has_no_rights_goes_by_the_name_of_the_proxys_own_sandbox(cluster: Cluster) -> None:
    cluster.tell(SANDBOXES, sandbox("s", 1))
    cluster.tell(PODS, pod("p", 1, ADDRESS))
    who = cluster.pods.identify(ADDRESS)
    assert (who.code, who.identity.sandbox, who.pod_uid) == ("identity.pooled", SANDBOX, "p-uid")
    nobody = cluster.pods.identify(OTHER)
    assert (nobody.code, nobody.identity.sandbox, nobody.pod_uid) == ("identity.unknown", SANDBOX, "")
    cluster.tell(PODS, plain_pod(SANDBOX, 2, OTHER))
    assert cluster.pods.identify(OTHER).code == "identity.ambiguous"
    cluster.tell(PODS, plain_pod("job", 3, "10.0.0.3", profile="admin"))
    assert cluster.pods.identify("10.0.0.3").code == "profile.unknown"
    assert set(cluster.engine.sandboxes) == {SANDBOX}


async def test_a_sandbox_goes_with_its_last_pod_and_leaves_nothing(cluster: Cluster) -> None:
    cluster.tell(PODS, plain_pod("job", 1, ADDRESS))
    cluster.door.waiting = [cluster.pods.identify(ADDRESS)]
    engine = cluster.engine
    limit = Limit(Place("hosts.yaml", 1, 1), requests=Rate(1, 3600, 1))
    assert engine.counts.spender("job")((limit,)).allowed
    assert not engine.counts.spender("job")((limit,)).allowed
    identity = engine.sandboxes["job"].identity
    grant = Grant(
        "g-1", request_terms("allow", 60, "api.example.test"), 2**40, "x", Place("hosts.yaml", 1, 1)
    )
    engine.set_overlay("job", Overlay(identity, (grant,)))
    cluster.tell(PODS, plain_pod("job", 2, ADDRESS), EventType.DELETED)
    assert cluster.door.cuts == [("job", "identity.gone")]
    assert cluster.ended == ["job"]
    assert "job" not in engine.sandboxes
    assert "job" not in engine.policy.overlays
    await asyncio.gather(*cluster.pods._closing)
    assert engine.counts.spender("job")((limit,)).allowed
    [removed] = cluster.events("sandbox.removed")
    assert (removed["sandbox"], removed["reason"]) == ("job", "identity.gone")
    assert (cluster.pods._sandboxes, cluster.pods._sandbox_of_pod) == ({}, {})


async def test_another_claim_or_wish_is_another_sandbox(cluster: Cluster) -> None:
    cluster.claim(profile="reviewer")
    cluster.door.waiting = [cluster.pods.identify(ADDRESS)]
    cluster.claim(version=2)
    assert cluster.door.cuts == [("s", "identity.changed")]
    assert cluster.pods.identify(ADDRESS).identity.profile is None
    assert [each["reason"] for each in cluster.events("sandbox.removed")] == ["identity.changed"]


async def test_two_pods_of_one_sandbox_are_one_until_both_are_gone(cluster: Cluster) -> None:
    cluster.claim()
    cluster.tell(PODS, pod("q", 2, OTHER))
    one, two = cluster.pods.identify(ADDRESS), cluster.pods.identify(OTHER)
    assert one.identity == two.identity
    assert (one.pod_uid, two.pod_uid) == ("p-uid", "q-uid")
    cluster.tell(PODS, pod("p", 3, ADDRESS), EventType.DELETED)
    assert "s" in cluster.engine.sandboxes
    cluster.tell(PODS, pod("q", 4, OTHER), EventType.DELETED)
    assert "s" not in cluster.engine.sandboxes


async def test_a_name_that_another_sandbox_has_now_ends_the_first_one(cluster: Cluster) -> None:
    cluster.tell(PODS, plain_pod("job", 1, ADDRESS))
    first = cluster.pods.identify(ADDRESS)
    again = plain_pod("job", 2, OTHER)
    again["metadata"]["uid"] = "again-uid"
    cluster.tell(PODS, again)
    cluster.door.waiting = [first]
    assert cluster.pods.identify(OTHER).pod_uid == "again-uid"
    assert cluster.door.cuts == [("job", "identity.changed")]
    assert cluster.engine.sandboxes["job"].identity.workload == Workload(
        "agents", "job", "again-uid", replica="egress-0"
    )


async def test_a_revoked_sandbox_stays_so_until_it_is_restored_or_gone(cluster: Cluster) -> None:
    cluster.tell(PODS, plain_pod("job", 1, ADDRESS))
    cluster.door.waiting = [cluster.pods.identify(ADDRESS)]
    cluster.pods.shut("other")
    assert not cluster.pods.identify(ADDRESS).code
    cluster.pods.shut("job")
    assert cluster.door.cuts == [("job", "access.withdrawn")]
    assert cluster.pods.identify(ADDRESS).code == "access.withdrawn"
    cluster.pods.reopen("job")
    assert not cluster.pods.identify(ADDRESS).code
    cluster.pods.shut("job")
    cluster.tell(PODS, plain_pod("job", 2, ADDRESS), EventType.DELETED)
    again = plain_pod("job", 3, ADDRESS)
    again["metadata"]["uid"] = "again-uid"
    cluster.tell(PODS, again)
    assert not cluster.pods.identify(ADDRESS).code


class Asker:
    """Tells the map of a pod, or cannot."""

    def __init__(self, cluster: Cluster, value: Json | None, *, answers: bool = True) -> None:
        self.cluster, self.value, self.answers = cluster, value, answers

    async def ask(self, peer: str) -> bool:
        if self.value is not None:
            self.cluster.tell(PODS, self.value)
        return self.answers


async def test_a_peer_that_is_asked_for_is_known_unknown_or_not_to_be_told_now(cluster: Cluster) -> None:
    assert (await cluster.pods.ask_again(ADDRESS)).code == "identity.stale"
    cluster.pods.asker = Asker(cluster, None, answers=False)
    assert (await cluster.pods.ask_again(ADDRESS)).code == "identity.stale"
    cluster.pods.asker = Asker(cluster, None)
    assert (await cluster.pods.ask_again(ADDRESS)).code == "identity.unknown"
    cluster.pods.asker = Asker(cluster, plain_pod("job", 1, ADDRESS))
    assert (await cluster.pods.ask_again(ADDRESS)).identity.sandbox == "job"


async def test_connections_that_do_not_end_are_not_waited_for_for_ever(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_sandboxes, "_CLOSE_TIMEOUT", 0.05)
    cluster.tell(PODS, plain_pod("job", 1, ADDRESS))
    cluster.pods.identify(ADDRESS)
    account = cluster.engine.pool.account("job")
    assert account.take(Resource.CLIENTS)
    cluster.tell(PODS, plain_pod("job", 2, ADDRESS), EventType.DELETED)
    await asyncio.wait_for(asyncio.gather(*cluster.pods._closing), 5)
    account.close()


# Parameters, and the ceiling of a template ---------------------------------------------------------------


async def test_a_claim_has_its_parameters_and_another_value_is_another_sandbox(cluster: Cluster) -> None:
    cluster.claim(profile="reviewer", repo="acme/site")
    who = cluster.pods.identify(ADDRESS)
    assert who.identity.parameters == (("repo", "acme/site"),)
    assert cluster.engine.sandboxes["s"].identity == who.identity
    cluster.door.waiting = [who]
    cluster.tell(CLAIMS, claim("c", 2, "s", "reviewer", repo="acme/other"))
    assert cluster.door.cuts == [("s", "identity.changed")]
    assert "s" not in cluster.engine.sandboxes
    assert cluster.pods.identify(ADDRESS).identity.parameters == (("repo", "acme/other"),)


async def test_a_claim_beyond_the_ceiling_is_denied_and_told(cluster: Cluster) -> None:
    told: list[tuple[str, str]] = []
    cluster.pods.on_refused = lambda found, choice: told.append((found.claim, choice.code))
    cluster.claim(profile="author")
    cluster.tell(TEMPLATES, template("t", 1, profile_max="reviewer"))
    cluster.door.waiting = [cluster.pods.identify(ADDRESS)]
    assert cluster.door.waiting[0].code == ""
    # From here on the sandbox is one of this template: what it has open is cut.
    cluster.tell(SANDBOXES, sandbox("s", 2, owner("SandboxClaim", "c"), "t"))
    assert cluster.door.cuts == [("s", "identity.changed")]
    who = cluster.pods.identify(ADDRESS)
    assert (who.code, who.identity.sandbox, who.identity.profile) == ("profile.ceiling", SANDBOX, None)
    cluster.tell(CLAIMS, claim("c", 2, "s", "reviewer", repo="other/site"))
    assert cluster.pods.identify(ADDRESS).code == "parameter.refused"
    assert told == [("c", "profile.ceiling"), ("c", "parameter.refused")]
    assert set(cluster.engine.sandboxes) == {SANDBOX}
    # The twin: within the ceiling, and with a sound value, it is served.
    cluster.tell(CLAIMS, claim("c", 3, "s", "reviewer", repo="acme/site"))
    assert cluster.pods.identify(ADDRESS).code == ""
    # Without its template nobody knows the ceiling.
    cluster.tell(TEMPLATES, template("t", 4), EventType.DELETED)
    assert cluster.pods.identify(ADDRESS).code == "profile.ceiling"


async def test_the_annotations_of_a_claimed_pod_count_for_nothing(cluster: Cluster) -> None:
    """The controller copies those of the claim onto it late, and others may write them."""
    cluster.claim(profile="reviewer")
    forged = pod("p", 5, ADDRESS)
    forged["metadata"]["annotations"] = {"egress/profile": "author", "egress/param.repo": "acme/secret"}
    cluster.tell(PODS, forged)
    who = cluster.pods.identify(ADDRESS)
    assert (who.identity.profile, who.identity.parameters) == ("reviewer", ())


async def test_a_plain_pod_has_the_parameters_of_its_own_annotations(cluster: Cluster) -> None:
    made = plain_pod("job", 3, "10.0.0.3", profile="reviewer")
    made["metadata"]["annotations"]["egress/param.repo"] = "acme/site"
    cluster.tell(PODS, made)
    assert cluster.pods.identify("10.0.0.3").identity.parameters == (("repo", "acme/site"),)
