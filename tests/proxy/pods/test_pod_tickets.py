"""Tickets of runs in pods: read from the claim, bound to the pod, under the ceiling, and cut when they go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from egress.kubernetes.pod_identity import PodIdentity
from egress.kubernetes.watch_events import EventType
from egress.proxy.lanes.connection import CarriedConnection
from egress.proxy.pods import pod_tickets
from egress.proxy.pods.pod_profile import ProfileChoice
from egress.proxy.pods.pod_tickets import MAX_WAITING_TICKETS, PodTickets
from egress.run_ticket import MAX_TICKET_SECONDS, MAX_TICKETS, RunTicket, ticket_digest, write_statement
from egress.types import Identity
from tests.proxy.injecting_proxy import certs
from tests.proxy.lab.proxy_stack import ProxyStack
from tests.proxy.pods.test_pod_sandboxes import (
    ADDRESS,
    CLAIMS,
    OTHER,
    PODS,
    RULES,
    SANDBOXES,
    TEMPLATES,
    Cluster,
)
from tests.proxy.ticket_runs import new_ticket
from tests.unit.kubernetes.watch_samples import claim, owner, plain_pod, pod, sandbox, template


@dataclass
class Admitted:
    identity: Identity


@dataclass(eq=False)
class Live:
    """A connection that notes why it was closed."""

    admitted: CarriedConnection
    codes: list[str] = field(default_factory=list)

    def close(self, code: str) -> None:
        self.codes.append(code)


class TicketedCluster(Cluster):
    """A cluster in which claims and pods get tickets."""

    def __init__(self, stack: ProxyStack) -> None:
        super().__init__(stack)
        self.tickets = PodTickets(self.engine, self.map, watch_timeout=0)
        self.map.on_tickets_lost = self.tickets.cut_pod
        self.refused: list[tuple[PodIdentity, ProfileChoice]] = []
        self.tickets.on_refused = lambda found, choice: self.refused.append((found, choice))
        self.version = 10

    def statement(
        self, ticket: str, pod_uid: str = "p-uid", ttl: int = 60, profile: str = "author", **params: str
    ) -> dict[str, str]:
        made = RunTicket(
            ticket_digest(ticket), self.engine.clock.now() + ttl, profile, tuple(sorted(params.items()))
        )
        return {f"egress/ticket.{made.id}": write_statement(made, pod_uid)}

    def annotate(self, annotations: dict[str, str], profile: str = "reviewer") -> None:
        """Let the claim have these annotations, and no others."""
        self.version += 1
        made = claim("c", self.version, "s", profile=profile)
        made["metadata"]["annotations"] = annotations
        self.tell(CLAIMS, made)

    async def redeem(self, ticket: str, address: str = ADDRESS) -> Identity | str:
        who = self.pods.identify(address)
        assert not who.code, who.code
        return await self.tickets.redeem(who.identity, address, ticket_digest(ticket))

    async def carry(self, ticket: str) -> Live:
        """A connection inside of a lane that came with a ticket."""
        identity = await self.redeem(ticket)
        assert isinstance(identity, Identity), identity
        made = Live(Admitted(identity))  # type: ignore[arg-type]
        self.engine.live.enter(made)  # type: ignore[arg-type]
        return made


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TicketedCluster]:
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        made = TicketedCluster(stack)
        made.claim(profile="reviewer")
        yield made
        for each in list(made.engine.live):
            made.engine.live.leave(each)


async def test_a_run_has_the_rights_of_its_ticket(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    assert await cluster.redeem(ticket) == "ticket.unknown"
    cluster.annotate(cluster.statement(ticket, repo="acme/site"))
    found = await cluster.redeem(ticket)
    assert isinstance(found, Identity)
    assert (found.sandbox, found.profile, found.parameters) == ("s", "author", (("repo", "acme/site"),))
    assert found.workload is not None
    assert found.ticket.startswith("t-")
    # The sandbox itself is what it was, and nothing of it was cut.
    assert cluster.pods.identify(ADDRESS).identity.profile == "reviewer"
    assert cluster.events("sandbox.removed") == []


async def test_a_ticket_keeps_what_the_claim_has_and_it_does_not_replace(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    cluster.version += 1
    made = claim("c", cluster.version, "s", profile="reviewer", repo="acme/claimed")
    made["metadata"]["annotations"] = cluster.statement(ticket, profile="")
    cluster.tell(CLAIMS, made)
    found = await cluster.redeem(ticket)
    assert isinstance(found, Identity)
    assert (found.profile, found.parameters) == ("reviewer", (("repo", "acme/claimed"),))


async def test_a_plain_pod_has_the_tickets_of_its_own_annotations(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    made = plain_pod("job", 3, OTHER, profile="reviewer")
    made["metadata"]["annotations"] |= cluster.statement(ticket, "job-uid")
    cluster.tell(PODS, made)
    found = await cluster.redeem(ticket, OTHER)
    assert isinstance(found, Identity)
    assert (found.sandbox, found.profile) == ("job", "author")


async def test_tickets_come_and_go_and_the_sandbox_stays(cluster: TicketedCluster) -> None:
    cluster.tell(PODS, plain_pod("job", 3, OTHER, profile="reviewer"))
    base = cluster.pods.identify(OTHER).identity
    for version, notes in enumerate((cluster.statement(new_ticket(), "job-uid"), {}), 4):
        made = plain_pod("job", version, OTHER, profile="reviewer")
        made["metadata"]["annotations"] |= notes
        cluster.tell(PODS, made)
        assert cluster.pods.identify(OTHER).identity == base
    assert cluster.events("sandbox.removed") == []


async def test_annotations_of_a_pod_that_is_claimed_say_nothing(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    made = pod("p", 2, ADDRESS)
    made["metadata"]["annotations"] = cluster.statement(ticket)
    cluster.tell(PODS, made)
    assert not isinstance(await cluster.redeem(ticket), Identity)
    cluster.annotate(cluster.statement(ticket))
    assert isinstance(await cluster.redeem(ticket), Identity)


async def test_a_stolen_ticket_is_refused_in_another_pod(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    cluster.annotate(cluster.statement(ticket))
    cluster.tell(PODS, plain_pod("thief", 3, OTHER, profile="reviewer"))
    assert await cluster.redeem(ticket, OTHER) == "ticket.foreign"
    assert isinstance(await cluster.redeem(ticket), Identity)


async def test_the_next_pod_of_a_claim_has_no_use_of_the_ticket_of_the_last(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    cluster.annotate(cluster.statement(ticket))
    assert isinstance(await cluster.redeem(ticket), Identity)
    cluster.tell(PODS, pod("p", 20, ADDRESS), EventType.DELETED)
    again = pod("p", 21, ADDRESS)
    again["metadata"]["uid"] = "second-uid"
    cluster.tell(PODS, again)
    assert await cluster.redeem(ticket) == "ticket.foreign"
    cluster.annotate(cluster.statement(ticket, "second-uid"))
    assert isinstance(await cluster.redeem(ticket), Identity)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"profile": "admin"}, "profile.unknown"),
        ({"profile": "author"}, "profile.ceiling"),
        ({"profile": "reviewer", "repo": "evil/site"}, "parameter.refused"),
        ({"profile": "reviewer", "nothing": "x"}, "parameter.refused"),
    ],
)
async def test_a_ticket_above_the_ceiling_is_refused_and_told(
    cluster: TicketedCluster, change: dict[str, str], code: str
) -> None:
    cluster.tell(TEMPLATES, template("t", 1, profile_max="reviewer"))
    cluster.tell(SANDBOXES, sandbox("s", 30, owner("SandboxClaim", "c"), template="t"))
    wrong, right = new_ticket(), new_ticket()
    cluster.annotate(
        cluster.statement(wrong, **change) | cluster.statement(right, profile="reviewer", repo="acme/site")  # type: ignore[arg-type]
    )
    assert await cluster.redeem(wrong) == code
    assert [choice.code for _, choice in cluster.refused] == [code]
    assert isinstance(await cluster.redeem(right), Identity)


async def test_the_end_of_a_ticket_cuts_what_came_with_it_and_nothing_else(cluster: TicketedCluster) -> None:
    ticket, other = new_ticket(), new_ticket()
    stays = cluster.statement(other)
    cluster.annotate(cluster.statement(ticket) | stays)
    carried, kept = await cluster.carry(ticket), await cluster.carry(other)
    base = Live(Admitted(cluster.pods.identify(ADDRESS).identity))  # type: ignore[arg-type]
    cluster.engine.live.enter(base)  # type: ignore[arg-type]
    cluster.annotate(stays)
    assert (carried.codes, kept.codes, base.codes) == (["ticket.ended"], [], [])
    assert await cluster.redeem(ticket) == "ticket.unknown"


async def test_a_ticket_that_is_written_anew_with_other_rights_cuts_what_had_the_old_ones(
    cluster: TicketedCluster,
) -> None:
    ticket = new_ticket()
    cluster.annotate(cluster.statement(ticket))
    carried = await cluster.carry(ticket)
    cluster.annotate(cluster.statement(ticket, ttl=120))
    assert carried.codes == []
    cluster.annotate(cluster.statement(ticket, profile="reviewer"))
    assert carried.codes == ["ticket.ended"]


async def test_a_ticket_ends_with_its_time(cluster: TicketedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = new_ticket()
    cluster.annotate(cluster.statement(ticket, ttl=60))
    carried = await cluster.carry(ticket)
    now = cluster.engine.clock.now()
    monkeypatch.setattr(cluster.engine.clock, "now", lambda: now + 58)
    cluster.tickets.cut_ended()
    assert carried.codes == []
    monkeypatch.setattr(cluster.engine.clock, "now", lambda: now + 62)
    cluster.tickets.cut_ended()
    assert carried.codes == ["ticket.ended"]
    assert await cluster.redeem(ticket) == "ticket.unknown"


def broken(annotations: dict[str, str]) -> list[dict[str, str]]:
    [(key, text)] = annotations.items()
    return [{key: text + "x"}, {key: ""}, {key[:-1]: text}, {key + "0": text}, {"egress/ticket.": text}]


async def test_a_statement_that_is_not_sound_gives_nothing(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    sound = cluster.statement(ticket)
    for each in broken(sound):
        cluster.annotate(each)
        # One that has its name is there, and nobody's.
        assert await cluster.redeem(ticket) in ("ticket.unknown", "ticket.foreign")
    cluster.annotate(cluster.statement(ticket, ttl=MAX_TICKET_SECONDS + 100))
    assert await cluster.redeem(ticket) == "ticket.unknown"
    cluster.annotate(sound)
    assert isinstance(await cluster.redeem(ticket), Identity)


async def test_more_tickets_than_there_may_be_do_not_hold(cluster: TicketedCluster) -> None:
    tickets = [new_ticket() for _ in range(MAX_TICKETS + 1)]
    annotations: dict[str, str] = {}
    for number, ticket in enumerate(tickets):
        annotations |= cluster.statement(ticket, ttl=60 + number)
    cluster.annotate(annotations)
    assert await cluster.redeem(tickets[-1]) == "ticket.unknown"
    assert isinstance(await cluster.redeem(tickets[0]), Identity)


async def test_a_run_that_is_quicker_than_the_watch_waits_for_it(cluster: TicketedCluster) -> None:
    ticket, patient = new_ticket(), PodTickets(cluster.engine, cluster.map, watch_timeout=30)
    who = cluster.pods.identify(ADDRESS).identity
    asked = asyncio.create_task(patient.redeem(who, ADDRESS, ticket_digest(ticket)))
    await asyncio.sleep(0)
    assert not asked.done()
    cluster.annotate(cluster.statement(ticket))
    async with asyncio.timeout(20):
        assert isinstance(await asked, Identity)


async def test_a_claim_with_many_annotations_is_seldom_read(
    cluster: TicketedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = [new_ticket() for _ in range(3)]
    cluster.annotate({key: text for each in tickets for key, text in cluster.statement(each).items()})
    carried = [await cluster.carry(each) for each in tickets for _ in range(10)]
    looks, live, moment = 0, PodTickets._live, cluster.engine.clock.monotonic()

    def counted(*given: Any) -> Mapping[str, RunTicket]:  # noqa: ANN401 - as it takes them
        nonlocal looks
        looks += 1
        return live(*given)

    async def sleep(seconds: float) -> None:
        nonlocal moment
        moment += seconds

    monkeypatch.setattr(PodTickets, "_live", counted)
    cluster.tickets.cut_ended()
    assert (looks, [each.codes for each in carried]) == (len(tickets), [[]] * len(carried))
    monkeypatch.setattr(pod_tickets, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(cluster.engine.clock, "monotonic", lambda: moment)
    looks, waited = 0, PodTickets(cluster.engine, cluster.map)
    who = cluster.pods.identify(ADDRESS).identity
    assert await waited.redeem(who, ADDRESS, ticket_digest(new_ticket())) == "ticket.unknown"
    assert 10 < looks < 20


async def test_a_flood_of_wrong_tickets_does_not_wait(cluster: TicketedCluster) -> None:
    patient = PodTickets(cluster.engine, cluster.map, watch_timeout=30)
    who = cluster.pods.identify(ADDRESS).identity
    waiting = [
        asyncio.create_task(patient.redeem(who, ADDRESS, ticket_digest(new_ticket())))
        for _ in range(MAX_WAITING_TICKETS)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await patient.redeem(who, ADDRESS, ticket_digest(new_ticket())) == "ticket.unknown"
    assert not any(each.done() for each in waiting)
    # Another sandbox has a number of its own, and whoever waits no more makes room.
    cluster.tell(PODS, plain_pod("job", 3, OTHER, profile="reviewer"))
    other = cluster.pods.identify(OTHER).identity
    waiting.append(asyncio.create_task(patient.redeem(other, OTHER, ticket_digest(new_ticket()))))
    waiting[0].cancel()
    await asyncio.sleep(0.1)
    waiting.append(asyncio.create_task(patient.redeem(who, ADDRESS, ticket_digest(new_ticket()))))
    await asyncio.sleep(0.1)
    assert not any(each.done() for each in waiting[1:])
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_watch_that_is_lost_admits_no_run_and_cuts_none(cluster: TicketedCluster) -> None:
    ticket = new_ticket()
    cluster.annotate(cluster.statement(ticket))
    carried, who = await cluster.carry(ticket), cluster.pods.identify(ADDRESS).identity
    cluster.map.lose(CLAIMS)
    assert await cluster.tickets.redeem(who, ADDRESS, ticket_digest(ticket)) == "identity.stale"
    cluster.tickets.cut_ended()
    assert carried.codes == []
