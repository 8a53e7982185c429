"""Who is behind, and when: whatever the order of reports, never both replicas in one subject."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.kubernetes.replica_lag import LOST_SECONDS, Behind, ReplicaLag
from egress.kubernetes.replica_report import ReplicaReport

PATIENCE = 30.0


def report(name: str = "other", *, ready: bool = True, **versions: int) -> ReplicaReport:
    return ReplicaReport(name, ready, "ab", 0, versions)


def test_a_version_that_stays_unknown_for_too_long_makes_a_replica_late() -> None:
    lag = ReplicaLag(PATIENCE)
    for now in range(0, 31, 2):
        lag.hear(report(rules=5), {"rules": 4}, now)
        assert lag.behind(now) == ()
    lag.hear(report(rules=5), {"rules": 4}, 32)
    assert lag.behind(32) == (Behind("rules", "other"),)
    lag.hear(report(rules=5), {"rules": 5}, 34)
    assert lag.behind(34) == ()


def test_a_newer_version_does_not_begin_the_time_anew() -> None:
    lag = ReplicaLag(PATIENCE)
    for now in range(0, 34, 2):
        lag.hear(report(pods=100 + now), {"pods": 99}, now)
    assert lag.behind(32) == (Behind("pods", "other"),)


def test_a_replica_that_is_always_a_moment_behind_is_not_late() -> None:
    lag = ReplicaLag(PATIENCE)
    for now in range(0, 600, 2):
        lag.hear(report(pods=100 + now), {"pods": 99 + now}, now)
        assert lag.behind(now) == ()


def test_nobody_is_behind_of_a_replica_that_is_silent_or_not_ready() -> None:
    lag = ReplicaLag(PATIENCE)
    for now in range(0, 34, 2):
        lag.hear(report(rules=5), {}, now)
    assert lag.behind(32)
    assert lag.behind(32 + LOST_SECONDS + 1) == ()
    for now in range(100, 134, 2):
        lag.hear(report(rules=5), {}, now)
    assert lag.behind(132)
    lag.hear(report(rules=5, ready=False), {}, 134)
    assert lag.behind(134) == ()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.floats(0, 60)), max_size=60))
def test_two_replicas_are_never_late_in_one_subject(steps: list[tuple[bool, int, float]]) -> None:
    lags, known, now = (ReplicaLag(PATIENCE), ReplicaLag(PATIENCE)), [0, 0], 0.0
    for is_second, change, pause in steps:
        now += pause
        known[is_second] += change
        for me, other in ((0, 1), (1, 0)):
            lags[me].hear(report(str(other), rules=known[other]), {"rules": known[me]}, now)
        late = [bool(lag.behind(now)) for lag in lags]
        # The late one is the one that knows less.
        assert not late[0] or known[0] < known[1]
        assert not late[1] or known[1] < known[0]
