"""Replicas that give no report: told when they are silent for too long, and forgotten when they are gone."""

from __future__ import annotations

from egress.kubernetes.replica_reach import ReplicaReach, SilentReplica


def test_a_replica_is_silent_when_nothing_was_heard_of_it_for_long_enough() -> None:
    found = ReplicaReach(10)
    found.miss("10.0.0.2", "connection refused", 100)
    found.miss("10.0.0.2", "no answer within 2 seconds", 109)
    assert found.silent(109) == ()
    # The last cause counts, and the first failure.
    assert found.silent(110) == (SilentReplica("10.0.0.2", "no answer within 2 seconds"),)
    assert str(found.silent(110)[0]) == "10.0.0.2 (no answer within 2 seconds)"
    found.hear("10.0.0.2")
    assert found.silent(999) == ()
    found.miss("10.0.0.2", "connection refused", 120)
    assert found.silent(125) == ()


def test_a_replica_that_is_gone_is_not_silent() -> None:
    found = ReplicaReach(0)
    for address in ("10.0.0.3", "10.0.0.2"):
        found.miss(address, "x", 1)
    assert [each.address for each in found.silent(2)] == ["10.0.0.2", "10.0.0.3"]
    found.keep(["10.0.0.3", "10.0.0.4"])
    assert [each.address for each in found.silent(2)] == ["10.0.0.3"]
