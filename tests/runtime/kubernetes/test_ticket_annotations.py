"""Tickets on a pod: added, ended, and removed when their time is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.run_ticket import CLOCK_DIFFERENCE, RunTicket, read_statement, write_statement
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.kubernetes.ticket_annotations import TicketAnnotations
from tests.runtime.kubernetes.fake_cluster import FakeCluster, served

SPENT, LIVE = RunTicket("a" * 64, 1000), RunTicket("b" * 64, 2000, "wide")


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    notes = {f"egress/ticket.{SPENT.id}": write_statement(SPENT, "uid"), "egress/profile": "coding"}
    found.add_pod("one", {"annotations": notes}, {})
    return found


@pytest.fixture
def tickets(cluster: FakeCluster) -> Iterator[TicketAnnotations]:
    with served(cluster) as api:
        yield TicketAnnotations(Pods(api), "one")


def there(cluster: FakeCluster) -> set[str]:
    return set(cluster.pods["one"]["metadata"]["annotations"])


def test_a_ticket_is_a_statement_until_it_ends(cluster: FakeCluster, tickets: TicketAnnotations) -> None:
    tickets.add(LIVE, "uid-1", 900)
    statement = read_statement(cluster.pods["one"]["metadata"]["annotations"][f"egress/ticket.{LIVE.id}"])
    assert statement is not None
    assert (statement.pod, statement.ticket) == ("uid-1", LIVE)
    assert f"egress/ticket.{SPENT.id}" in there(cluster)
    tickets.end(LIVE.id)
    assert there(cluster) == {f"egress/ticket.{SPENT.id}", "egress/profile"}


def test_a_ticket_that_is_over_goes_with_the_next_one(
    cluster: FakeCluster, tickets: TicketAnnotations
) -> None:
    end = SPENT.expires + CLOCK_DIFFERENCE
    tickets.add(LIVE, "uid", end - 1)
    assert f"egress/ticket.{SPENT.id}" in there(cluster)
    tickets.add(LIVE, "uid", end)
    assert there(cluster) == {f"egress/ticket.{LIVE.id}", "egress/profile"}


def test_where_nothing_is_spent_nothing_is_written(cluster: FakeCluster, tickets: TicketAnnotations) -> None:
    tickets.remove_spent(900)
    assert not [each for each in cluster.requests if each.startswith("PATCH")]
    tickets.remove_spent(5000)
    assert there(cluster) == {"egress/profile"}
    cluster.pods.pop("one")
    tickets.remove_spent(5000)
