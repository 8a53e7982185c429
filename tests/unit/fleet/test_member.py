"""A member knows when it was last in use, and when it has to go."""

from __future__ import annotations

from typing import cast

from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.member import FleetMember
from egress.runtime.errors import ExecTimeoutError, SandboxDiedError
from egress.runtime.protocol import RuntimeProcess
from egress.runtime.spec import Spec


class Running:
    """A command as far as a member looks at it."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.is_over = False

    def wait(self, timeout: float | None = None) -> None:
        assert timeout == 0
        if self.failure is not None:
            raise self.failure
        if not self.is_over:
            raise TimeoutError


def member(**terms: object) -> FleetMember:
    return FleetMember(Spec(name="one", image="any"), SandboxLifetime(**terms), made=100, used=100)  # type: ignore[arg-type]


def test_its_time_runs_from_its_making() -> None:
    one = member(timeout=10)
    assert (one.left(104), one.reason_to_leave(109)) == (6, None)
    one.used = 109
    assert (one.left(110), one.reason_to_leave(110)) == (0, "timeout")
    assert member().left(10**9) is None


def test_it_may_lie_idle_for_so_long() -> None:
    one = member(idle_timeout=10)
    assert one.reason_to_leave(109) is None
    assert one.reason_to_leave(110) == "idle"
    one.used = 109
    assert one.reason_to_leave(110) is None


def test_what_is_under_way_keeps_it() -> None:
    one = member(idle_timeout=10)
    one.under_way = 1
    assert one.reason_to_leave(1000) is None
    one.under_way = 0
    assert one.reason_to_leave(1009) is None
    assert one.reason_to_leave(1010) == "idle"


def test_a_command_that_runs_keeps_it_until_it_ends() -> None:
    one, running = member(idle_timeout=10), Running()
    one.running.append(cast("RuntimeProcess", running))
    assert one.reason_to_leave(1000) is None
    running.is_over = True
    assert one.reason_to_leave(1050) is None
    assert one.running == []
    assert one.reason_to_leave(1060) == "idle"


def test_a_command_that_failed_does_not_keep_it() -> None:
    one, running = member(idle_timeout=10), Running()
    for failure in (SandboxDiedError("gone"), ExecTimeoutError("late")):
        running.failure = failure
        one.running.append(cast("RuntimeProcess", running))
        one.drop_ended(105)
        assert one.running == []


def test_what_commands_printed_is_let_go_of_where_no_time_is_set() -> None:
    one, running = member(), Running()
    running.is_over = True
    one.running.append(cast("RuntimeProcess", running))
    assert one.reason_to_leave(105) is None
    assert one.running == []


def test_one_that_shall_sleep_does_so_instead_of_leaving() -> None:
    one = member(idle_timeout=10, timeout=50, on_idle="sleep")
    assert not one.may_sleep(109)
    assert one.may_sleep(110)
    assert one.reason_to_leave(110) is None
    assert one.reason_to_leave(150) == "timeout"
    assert not member(idle_timeout=10).may_sleep(110)


def test_one_in_use_or_asleep_already_may_not_sleep() -> None:
    one = member(idle_timeout=10, on_idle="sleep")
    one.sleep = "asleep"
    assert not one.may_sleep(110)
    one.sleep, one.under_way = "awake", 1
    assert not one.may_sleep(1000)


def test_one_that_was_found_unfit_is_looked_at_again_after_its_next_use() -> None:
    one = member(idle_timeout=10, on_idle="sleep")
    one.unfit_since = one.used
    assert not one.may_sleep(1000)
    one.used = 1000
    assert one.may_sleep(1010)
