"""A fleet keeps what a runtime promises, and knows names, owners and times besides."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from egress.fleet import Fleet, SandboxLifetime
from egress.fleet.errors import FleetUnavailableError, ProxyFailedError, SandboxDiffersError
from egress.runtime.errors import (
    EngineError,
    GatewayError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
)
from egress.runtime.fake import FakeRuntime
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Command, Event, Info, Spec
from tests.fleet.memory_fleet import MemoryFleet, spec
from tests.unit.runtime.contract import CASES, Case, RuntimeBench

TRUE = Command(argv=("true",))
FOREVER = Command(argv=("sleep", "infinity"))
# The one promise that a fleet keeps in another way: the same again gives what is there.
PROMISES = [case for case in CASES if case.__name__ != "a_name_is_taken_until_it_is_removed"]


class InFleet:
    def __init__(self) -> None:
        self.runtime: Runtime = Fleet(FakeRuntime(images={"any"}), tick=None)

    def spec(self, name: str, **values: object) -> Spec:
        return spec(name, **values)


@pytest.fixture
def bench() -> Iterator[RuntimeBench]:
    bench = InFleet()
    yield bench
    bench.runtime.close()


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    estate = MemoryFleet()
    yield estate
    estate.fleet.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda case: case.__name__)
def test_a_promise_of_runtimes_is_kept(promise: Case, bench: RuntimeBench) -> None:
    promise(bench)


# Names ------------------------------------------------------------------------------------------------


def test_the_same_again_gives_the_one_that_is_there(estate: MemoryFleet) -> None:
    fleet = estate.fleet
    fleet.create(spec(env={"A": "1"}), SandboxLifetime(timeout=60))
    fleet.start("one")
    assert fleet.create(spec(env={"A": "1"}), SandboxLifetime(timeout=60)).state == "running"
    assert len(fleet.list()) == 1


def test_another_one_of_that_name_is_refused_and_the_fields_are_named(estate: MemoryFleet) -> None:
    estate.fleet.create(spec(env={"KEY": "sesame"}), SandboxLifetime(timeout=60))
    with pytest.raises(SandboxDiffersError) as caught:
        estate.fleet.create(spec(env={"KEY": "other"}, ports=(81,)), SandboxLifetime(timeout=61))
    assert caught.value.message.endswith("with other settings: env, ports, timeout")
    assert "sesame" not in caught.value.message + caught.value.hint
    assert isinstance(caught.value, SandboxExistsError)


def test_nobody_gets_the_sandbox_of_somebody_else(estate: MemoryFleet) -> None:
    estate.fleet.create(spec(), SandboxLifetime(owner="a"))
    with pytest.raises(SandboxExistsError, match="another owner"):
        estate.fleet.create(spec(), SandboxLifetime(owner="b"))
    assert estate.fleet.create(spec(), SandboxLifetime(owner="a")).name == "one"


def test_many_who_ask_for_one_name_get_one_sandbox(estate: MemoryFleet) -> None:
    found: list[Info] = []
    with estate.fleet.events() as events:
        threads = [
            threading.Thread(target=lambda: found.append(estate.fleet.create(spec()))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        estate.fleet.remove("one")
        kinds = []
        for event in events:
            kinds.append(event.kind)
            if event.kind == "removed":
                break
    assert len(found) == 8
    assert kinds == ["created", "removed"]


def test_what_failed_leaves_the_name_free(estate: MemoryFleet) -> None:
    with pytest.raises(Exception, match="no image"):
        estate.fleet.create(Spec(name="one", image="none"))
    assert estate.fleet.create(spec()).name == "one"


# Time -------------------------------------------------------------------------------------------------


def test_it_goes_when_its_time_is_over_whatever_runs(estate: MemoryFleet) -> None:
    fleet, clock = estate.fleet, estate.clock
    fleet.create(spec(), SandboxLifetime(timeout=60))
    fleet.start("one")
    process = fleet.spawn("one", FOREVER)
    clock.now += 59
    assert fleet.remove_expired() == ()
    clock.now += 1
    assert fleet.remove_expired() == ("one",)
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    assert fleet.list() == ()
    with pytest.raises(SandboxNotFoundError):
        fleet.exec("one", TRUE)


def test_who_is_taken_away_just_now_is_left_to_whoever_does(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    remove = estate.runtime.remove

    def slow(name: str) -> None:
        begun.set()
        assert go_on.wait(30)
        remove(name)

    monkeypatch.setattr(estate.runtime, "remove", slow)
    estate.fleet.create(spec(), SandboxLifetime(timeout=60))
    thread = threading.Thread(target=lambda: estate.fleet.remove("one"))
    thread.start()
    assert begun.wait(30)
    estate.clock.now += 61
    try:
        # It does not wait for that either.
        assert estate.fleet.remove_expired() == ()
    finally:
        go_on.set()
        thread.join()
    assert estate.fleet.list() == ()


@pytest.fixture
def slowly_removed(estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Removals of the runtime wait for this."""
    go_on, remove = threading.Event(), estate.runtime.remove

    def slow(name: str) -> None:
        assert go_on.wait(30)
        remove(name)

    monkeypatch.setattr(estate.runtime, "remove", slow)
    yield go_on
    go_on.set()


def test_one_that_is_discarded_is_as_good_as_gone(
    estate: MemoryFleet, slowly_removed: threading.Event
) -> None:
    fleet, made = estate.fleet, list[Info]()
    fleet.create(spec())
    fleet.start("one")
    fleet.discard("one")
    assert fleet.list() == ()
    with pytest.raises(SandboxNotFoundError):
        fleet.exec("one", TRUE)
    # Neither the thread for those whose time is over nor another caller removes it once more.
    assert fleet.remove_expired() == ()
    again = threading.Thread(target=lambda: made.append(fleet.create(spec(ports=(81,)))))
    again.start()
    assert made == []
    slowly_removed.set()
    again.join(30)
    assert [each.name for each in fleet.list()] == ["one"]


def test_the_end_of_a_fleet_waits_for_what_was_discarded(
    estate: MemoryFleet, slowly_removed: threading.Event
) -> None:
    estate.fleet.create(spec())
    estate.fleet.discard("one")
    closing = threading.Thread(target=estate.fleet.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    slowly_removed.set()
    closing.join(30)
    assert not closing.is_alive()


def test_one_that_could_not_be_discarded_is_tried_again(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    estate.fleet.create(spec())
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "remove", _fail)
        estate.fleet.discard("one")
        with estate.fleet._changed:
            assert estate.fleet._changed.wait_for(lambda: not estate.fleet._busy, 30)
        assert [each.name for each in estate.runtime.list()] == ["one"]
    assert estate.fleet.remove_expired() == ("one",)
    estate.fleet.discard("nobody")


def test_it_goes_when_nothing_was_done_with_it(estate: MemoryFleet) -> None:
    fleet, clock = estate.fleet, estate.clock
    fleet.create(spec(), SandboxLifetime(idle_timeout=60))
    fleet.start("one")
    for _ in range(3):
        clock.now += 59
        fleet.exec("one", TRUE)
        assert fleet.remove_expired() == ()
    clock.now += 30
    assert fleet.status("one").idle == 30
    clock.now += 30
    assert fleet.remove_expired() == ("one",)


def test_a_command_that_runs_is_something(estate: MemoryFleet) -> None:
    fleet, clock = estate.fleet, estate.clock
    fleet.create(spec(), SandboxLifetime(idle_timeout=60))
    fleet.start("one")
    process = fleet.spawn("one", FOREVER)
    clock.now += 1000
    assert fleet.remove_expired() == ()
    process.kill()
    process.wait(30)
    clock.now += 59
    assert fleet.remove_expired() == ()
    clock.now += 60
    assert fleet.remove_expired() == ("one",)


@pytest.mark.parametrize("use", ["get", "touch", "dial"])
def test_other_use_of_it_counts(use: str, estate: MemoryFleet) -> None:
    fleet, clock = estate.fleet, estate.clock
    fleet.create(spec(), SandboxLifetime(idle_timeout=60))
    fleet.start("one")
    clock.now += 59
    if use == "get":
        with fleet.get("one", "/workspace"):
            clock.now += 1000
            assert fleet.remove_expired() == ()
    elif use == "touch":
        fleet.touch("one")
    else:
        with pytest.raises(Exception, match="nothing listens"):
            fleet.dial("one", 80)
    clock.now += 59
    assert fleet.remove_expired() == ()
    clock.now += 1
    assert fleet.remove_expired() == ("one",)


def test_how_long_it_has_is_told(estate: MemoryFleet) -> None:
    estate.fleet.create(spec(), SandboxLifetime(timeout=60, owner="me"))
    estate.clock.now += 20
    standing = estate.fleet.status("one")
    assert (standing.left, standing.idle, standing.terms.owner) == (40, 20, "me")
    assert standing.info.name == "one"


def test_one_that_cannot_be_removed_takes_no_more_and_is_tried_again(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = estate.fleet
    fleet.create(spec(), SandboxLifetime(timeout=1))
    fleet.start("one")
    estate.clock.now += 1
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "remove", _fail)
        assert fleet.remove_expired() == ()
        with pytest.raises(SandboxNotFoundError):
            fleet.exec("one", TRUE)
    assert fleet.remove_expired() == ("one",)
    assert fleet.list() == ()


def test_a_name_whose_time_is_over_can_be_taken_at_once(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the old one could not be removed at first."""
    estate.fleet.create(spec(), SandboxLifetime(timeout=1))
    estate.clock.now += 1
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "remove", _fail)
        estate.fleet.remove_expired()
    assert estate.fleet.create(spec(ports=(81,))).state == "created"
    assert estate.fleet.remove_expired() == ()


def test_a_name_that_is_taken_while_others_are_removed_is_that_of_a_new_sandbox(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, remove = estate.fleet, estate.runtime.remove
    for name in ("one", "two"):
        fleet.create(spec(name), SandboxLifetime(timeout=1))
    estate.clock.now += 1

    def slow(name: str) -> None:
        remove(name)
        if name == "one":
            fleet.create(spec("two", ports=(81,)))
            fleet.start("two")

    monkeypatch.setattr(estate.runtime, "remove", slow)
    assert fleet.remove_expired() == ("one",)
    assert fleet.info("two").state == "running"


def test_a_port_that_is_exposed_during_a_removal_is_not_that_of_the_next_sandbox(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, info, removals = estate.fleet, estate.runtime.info, list[threading.Thread]()
    fleet.create(spec())

    def slow(name: str) -> Info:
        found = info(name)
        monkeypatch.setattr(estate.runtime, "info", info)
        removals.append(threading.Thread(target=fleet.remove, args=(name,)))
        removals[0].start()
        # As long as it takes, if nothing holds it up.
        removals[0].join(0.2)
        return found

    monkeypatch.setattr(estate.runtime, "info", slow)
    fleet.expose("one", 8000)
    removals[0].join(30)
    fleet.create(spec(ports=(81,)))
    assert fleet.previews() == ()


def test_a_thread_looks_for_those_who_have_to_go() -> None:
    fleet = Fleet(FakeRuntime(), tick=0.01)
    try:
        with fleet.events() as events:
            fleet.create(spec(), SandboxLifetime(timeout=0.01))
            assert [next(events), next(events)] == [Event("created", "one"), Event("removed", "one")]
    finally:
        fleet.close()


def _fail(_: str) -> None:
    raise EngineError("the engine did not do it", "try again")


# Those who sent a canary that stops them ----------------------------------------------------------------


@pytest.fixture
def offenders() -> set[str]:
    return set()


@pytest.fixture
def judged(offenders: set[str]) -> Iterator[Fleet]:
    """A fleet with two sandboxes that run, and a proxy that names the offenders."""
    fleet = Fleet(FakeRuntime(images={"any"}), canary_offenders=lambda: frozenset(offenders), tick=None)
    for name in ("one", "two"):
        fleet.create(spec(name))
        fleet.start(name)
    yield fleet
    fleet.close()


def states(fleet: Fleet) -> list[str]:
    return [each.state for each in fleet.list()]


def test_who_sent_one_is_stopped_and_not_started_again(judged: Fleet, offenders: set[str]) -> None:
    judged.offenders.stop_new()
    assert states(judged) == ["running", "running"]
    process = judged.spawn("one", FOREVER)
    offenders.add("one")
    judged.offenders.stop_new()
    judged.offenders.stop_new()
    assert states(judged) == ["stopped", "running"]
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    with pytest.raises(SandboxStateError, match="sent a canary") as caught:
        judged.start("one")
    assert "egress log query --sandbox one" in caught.value.hint
    judged.start("two")
    offenders.clear()
    judged.start("one")
    judged.offenders.stop_new()
    offenders.add("one")
    judged.offenders.stop_new()
    assert states(judged) == ["stopped", "running"]


def test_the_next_one_of_its_name_is_innocent_until_it_sends_one(judged: Fleet, offenders: set[str]) -> None:
    offenders.add("one")
    judged.offenders.stop_new()
    judged.remove("one")
    offenders.clear()
    judged.create(spec("one"))
    judged.start("one")
    judged.offenders.stop_new()
    assert states(judged) == ["running", "running"]
    offenders.add("one")
    judged.offenders.stop_new()
    assert states(judged) == ["stopped", "running"]


def test_one_that_was_replaced_while_it_was_judged_goes_on(offenders: set[str]) -> None:
    """The name is asked about once more when nobody else can make or remove it."""
    answers = iter([frozenset({"one"}), frozenset()])
    fleet = Fleet(FakeRuntime(images={"any"}), canary_offenders=lambda: next(answers), tick=None)
    fleet.create(spec("one"))
    fleet.start("one")
    fleet.offenders.stop_new()
    assert states(fleet) == ["running"]
    fleet.close()


def test_who_is_not_of_this_fleet_is_left_alone(judged: Fleet, offenders: set[str]) -> None:
    offenders.add("somebody")
    judged.offenders.stop_new()
    judged.offenders.stop_new()
    assert states(judged) == ["running", "running"]


def test_one_that_cannot_be_stopped_is_tried_again(
    judged: Fleet, offenders: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offenders.add("one")
    with monkeypatch.context() as patch:
        patch.setattr(judged._runtime, "stop", _fail)
        judged.offenders.stop_new()
    assert states(judged) == ["running", "running"]
    judged.offenders.stop_new()
    assert states(judged) == ["stopped", "running"]


def test_without_a_proxy_nobody_is_judged() -> None:
    def gone() -> frozenset[str]:
        raise GatewayError("no proxy is running here", "start one")

    fleet = Fleet(FakeRuntime(images={"any"}), canary_offenders=gone, tick=None)
    fleet.create(spec("one"))
    fleet.start("one")
    fleet.offenders.stop_new()
    assert states(fleet) == ["running"]
    fleet.close()


def test_a_thread_looks_for_the_guilty() -> None:
    fleet = Fleet(FakeRuntime(images={"any"}), canary_offenders=lambda: {"one"}, tick=0.01)
    try:
        with fleet.events() as events:
            fleet.create(spec())
            fleet.start("one")
            assert "died" in iter(lambda: next(events).kind, None)
    finally:
        fleet.close()


# The whole --------------------------------------------------------------------------------------------


def test_what_is_made_ahead_is_the_business_of_the_runtime(estate: MemoryFleet) -> None:
    estate.fleet.prepare(spec(), 3)
    assert estate.runtime.prepared == [("any", 3)]


def test_nothing_is_made_without_a_proxy() -> None:
    def gone() -> None:
        raise ProxyFailedError("the proxy is gone")

    fleet = Fleet(FakeRuntime(), check=gone, tick=None)
    with pytest.raises(ProxyFailedError):
        fleet.create(spec())
    fleet.close()


def test_the_end_of_it_is_the_end_of_all() -> None:
    estate = MemoryFleet()
    estate.fleet.create(spec())
    estate.fleet.start("one")
    process = estate.fleet.spawn("one", FOREVER)
    with estate.fleet.events() as events:
        estate.fleet.close()
        estate.fleet.close()
        assert [event.kind for event in events][-1:] in ([], ["removed"])
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    assert estate.runtime.list() == ()
    with pytest.raises(FleetUnavailableError):
        estate.fleet.create(spec())


def test_a_port_that_is_none_is_refused(estate: MemoryFleet) -> None:
    estate.fleet.create(spec())
    with pytest.raises(SpecError):
        estate.fleet.expose("one", 0)
