"""Members come back with their settings and the rest of their time, and without access that was revoked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.errors import SandboxDiffersError
from egress.fleet.kept_members import KeptMembers
from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.errors import (
    EngineUnavailableError,
    GatewayError,
    MountError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.fake import FakeRuntime
from egress.runtime.protocol import KeepingRuntime, KeptTerms, TakenOver
from egress.runtime.proxy_client import Bar
from egress.runtime.spec import Command, Mount, Spec


class KeepingMemoryRuntime(FakeRuntime):
    """Keeps sandboxes in memory, and gives them to the next fleet."""

    def __init__(self) -> None:
        super().__init__(images={"any"})
        self.kept: dict[str, KeptTerms] = {}
        self.bars: dict[str, Bar] = {}
        self.mounts: dict[str, tuple[Mount, ...]] = {}
        """With resolved sources."""
        self.is_full = False
        self.is_left = False

    def keep(self, name: str, terms: KeptTerms) -> None:
        if self.is_full:
            raise EngineUnavailableError("the disk is full", "free space")
        self.kept[name] = terms

    def bar(self, name: str, bar: Bar) -> None:
        self.info(name)
        self.bars[name] = bar

    def take_over(self) -> tuple[TakenOver, ...]:
        return tuple(
            TakenOver(name, terms, self.bars.get(name, ""), self.mounts.get(name, ()))
            for name, terms in self.kept.items()
        )

    def leave(self) -> None:
        self.is_left = True


@dataclass(slots=True)
class Machine:
    """A machine on which fleets come and go."""

    runtime: KeepingMemoryRuntime = field(default_factory=KeepingMemoryRuntime)
    now: float = 1_000_000.0
    clock: float = 50.0
    bars: dict[str, Bar] = field(default_factory=dict)
    proxy: Exception | None = None
    closed: set[Path] = field(default_factory=set)
    """What no sandbox may mount."""

    def fleet(self) -> Fleet:
        self.clock = 7.0
        kept = KeptMembers(self.runtime, lambda: self.now, self._bars)
        return Fleet(
            self.runtime,
            clock=lambda: self.clock,
            tick=None,
            kept=kept,
            canary_offenders=self._offenders,
            check_mounts=self._check_mounts,
        )

    def _check_mounts(self, spec: Spec) -> None:
        if any(mount.source in self.closed for mount in spec.mounts):
            raise MountError("it holds the rules of the sandbox", "mount less")

    def _bars(self) -> dict[str, Bar]:
        if self.proxy is not None:
            raise self.proxy
        return self.bars

    def _offenders(self) -> set[str]:
        return {name for name, bar in self.bars.items() if bar == "canary"}


@pytest.fixture
def machine() -> Machine:
    return Machine()


SPEC = Spec(name="one", image="any", env={"A": "b"}, labels={"team": "x"})


def test_the_runtime_of_the_tests_is_one_that_keeps(machine: Machine) -> None:
    assert isinstance(machine.runtime, KeepingRuntime)
    assert not isinstance(FakeRuntime(), KeepingRuntime)


def test_a_changed_time_outlives_the_fleet(machine: Machine) -> None:
    asked = SandboxLifetime(timeout=100)
    first = machine.fleet()
    first.create(SPEC, asked)
    machine.now += 60
    machine.clock += 60
    first.change_lifetime("one", {"timeout": 500})
    assert machine.runtime.kept["one"].deadline == machine.now + 500
    machine.now += 100
    fleet = machine.fleet()
    assert fleet.status("one").left == 400
    # The request that made it still finds it, and does not put its time back.
    fleet.create(SPEC, asked)
    assert fleet.status("one").left == 400
    fleet.change_lifetime("one", {"timeout": None, "idle_timeout": 30})
    assert [each.deadline for each in machine.runtime.kept.values()] == [None]
    assert machine.fleet().status("one").terms == SandboxLifetime(idle_timeout=30)


def test_a_change_that_cannot_be_recorded_is_none(machine: Machine) -> None:
    fleet = machine.fleet()
    fleet.create(SPEC, SandboxLifetime(timeout=100))
    machine.runtime.is_full = True
    with pytest.raises(EngineUnavailableError):
        fleet.change_lifetime("one", {"timeout": 500})
    assert fleet.status("one").left == 100


def test_a_member_comes_back_with_its_settings_and_the_rest_of_its_time(machine: Machine) -> None:
    terms = SandboxLifetime(timeout=100, idle_timeout=30, owner="me")
    machine.fleet().create(SPEC, terms)
    assert machine.runtime.kept["one"].deadline == machine.now + 100
    machine.now += 60
    fleet = machine.fleet()
    status = fleet.status("one")
    assert (status.terms, status.left, status.idle) == (terms, 40, 0)
    # Found again by the same request, and by no other owner's.
    assert fleet.create(SPEC, terms).labels == {"team": "x"}
    with pytest.raises(SandboxDiffersError):
        fleet.create(Spec(name="one", image="any"), terms)
    with pytest.raises(SandboxExistsError):
        fleet.create(SPEC, SandboxLifetime(owner="you"))
    machine.clock += 29
    assert fleet.remove_expired() == ()
    machine.clock += 11
    assert fleet.remove_expired() == ("one",)


@pytest.mark.parametrize("bar", ["", "killed"])
def test_one_that_does_not_run_is_started_by_its_next_use_unless_it_has_no_access(
    machine: Machine, bar: Bar
) -> None:
    """It slept, its machine was started anew, or its owner ended before it was started."""
    fleet = machine.fleet()
    for name in ("slept", "fresh"):
        fleet.create(Spec(name=name, image="any"))
        machine.runtime.bars[name] = bar
    fleet.start("slept")
    machine.runtime.stop("slept")
    fleet = machine.fleet()
    states = {"slept": "stopped" if bar else "asleep", "fresh": "created"}
    assert {info.name: info.state for info in fleet.list()} == states
    for name, state in states.items():
        fleet.wake(name)
        assert fleet.info(name).state == (state if bar else "running")


def test_a_clock_that_went_back_gives_no_time(machine: Machine) -> None:
    machine.fleet().create(SPEC, SandboxLifetime(timeout=100))
    machine.now -= 500
    assert machine.fleet().status("one").left == 100


def test_one_that_cannot_be_kept_is_not_made(machine: Machine) -> None:
    machine.runtime.is_full = True
    fleet = machine.fleet()
    with pytest.raises(EngineUnavailableError, match="full"):
        fleet.create(SPEC)
    assert fleet.list() == ()
    machine.runtime.is_full = False
    fleet.create(SPEC)


def test_access_that_was_revoked_is_recorded_and_given_back_only_by_a_proxy_that_knows(
    machine: Machine,
) -> None:
    fleet = machine.fleet()
    fleet.create(SPEC)
    kept = KeptMembers(machine.runtime, lambda: machine.now, machine._bars)
    tuple(kept.take_over(0, lambda _: None))
    machine.bars = {"one": "canary", "other": "killed"}
    kept.record_bars()
    assert machine.runtime.bars == {"one": "canary"}
    # A proxy that does not know the sandbox, and one that does not answer, say nothing of it.
    machine.bars = {"other": "killed"}
    kept.record_bars()
    machine.proxy = GatewayError("gone", "wait")
    kept.record_bars()
    assert machine.runtime.bars == {"one": "canary"}
    machine.proxy, machine.bars = None, {"one": ""}
    kept.record_bars()
    assert machine.runtime.bars == {"one": ""}
    fleet.remove("one")
    machine.bars = {"one": "killed"}
    kept.record_bars()
    assert machine.runtime.bars == {"one": ""}


def test_one_record_that_cannot_be_written_does_not_keep_the_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = machine.fleet()
    for name in ("one", "two", "three"):
        fleet.create(Spec(name=name, image="any"))
    kept = KeptMembers(machine.runtime, lambda: machine.now, machine._bars)
    tuple(kept.take_over(0, lambda _: None))
    record, tried = machine.runtime.bar, list[str]()

    def bar(name: str, bar: Bar) -> None:
        tried.append(name)
        if len(tried) == 1:
            raise EngineUnavailableError("the disk is full", "free space")
        record(name, bar)

    monkeypatch.setattr(machine.runtime, "bar", bar)
    machine.bars = dict.fromkeys(("one", "two", "three"), "killed")
    kept.record_bars()
    assert machine.runtime.bars == dict.fromkeys(tried[1:], "killed")
    assert len(tried) == 3


def test_one_that_sent_a_canary_does_not_start_after_it_came_back(machine: Machine) -> None:
    machine.fleet().create(SPEC)
    machine.bars = {"one": "canary"}
    fleet = machine.fleet()
    with pytest.raises(SandboxStateError, match="sent a canary"):
        fleet.start("one")
    # Restored by its operator.
    machine.bars = {"one": ""}
    fleet.offenders.stop_new()
    assert fleet.start("one").state == "running"


@pytest.mark.parametrize("note", ["", "{}", '{"version": 2}', "\u20ac"])
def test_one_of_whom_nobody_knows_the_terms_is_stopped(machine: Machine, note: str) -> None:
    machine.runtime.create(SPEC)
    machine.runtime.start("one")
    machine.runtime.kept["one"] = KeptTerms(note)
    fleet = machine.fleet()
    assert [(info.name, info.state) for info in fleet.list()] == [("one", "stopped")]
    assert fleet.status("one").terms == SandboxLifetime()


def test_a_note_of_another_sandbox_is_none(machine: Machine) -> None:
    machine.fleet().create(SPEC, SandboxLifetime(owner="me"))
    machine.runtime.create(Spec(name="two", image="any"))
    machine.runtime.kept = {"two": machine.runtime.kept["one"]}
    fleet = machine.fleet()
    assert [fleet.status(name).terms.owner for name in ("one", "two")] == ["", ""]


def test_a_fleet_leaves_its_members_or_ends_them(machine: Machine) -> None:
    fleet = machine.fleet()
    fleet.create(SPEC)
    machine.bars = {"one": "killed"}
    fleet.leave()
    assert machine.runtime.is_left
    assert machine.runtime.bars == {"one": "killed"}
    assert machine.runtime.info("one").name == "one"
    machine.runtime.is_left = False
    machine.fleet().close()
    assert not machine.runtime.is_left
    with pytest.raises(SandboxNotFoundError):
        machine.runtime.info("one")


def test_one_whose_mounts_no_sandbox_may_have_now_is_stopped_and_not_started(machine: Machine) -> None:
    """The rules of today may lie in a folder that it writes: where its link leads, and not where it led."""
    fleet = machine.fleet()
    for name in ("one", "two"):
        mount = Mount(source=Path("/link", name), target="/work", writable=True)
        fleet.create(Spec(name=name, image="any", mounts=(mount,)))
        fleet.start(name)
        machine.runtime.mounts[name] = (Mount(source=Path("/place", name), target="/work", writable=True),)
    machine.closed = {Path("/place/one")}
    fleet = machine.fleet()
    assert fleet.info("one").state == "stopped"
    assert fleet.info("two").state == "running"
    with pytest.raises(SandboxStateError, match="holds the rules"):
        fleet.start("one")
    with pytest.raises(SandboxDiedError):
        fleet.exec("one", Command(argv=("true",)))
    fleet.wake("one")
    assert fleet.info("one").state == "stopped"
    fleet.remove("one")
    fleet.create(Spec(name="one", image="any"))
    assert fleet.start("one").state == "running"
