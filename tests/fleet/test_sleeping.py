"""An idle sandbox sleeps where it shall: every use wakes it, once, and some never are."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from egress.fleet import Fleet, SandboxLifetime
from egress.fleet.errors import ProxyFailedError
from egress.runtime.errors import (
    EngineError,
    GatewayError,
    PortClosedError,
    SandboxDiedError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
)
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Command, SandboxLimits
from tests.fleet.memory_fleet import MemoryFleet, served, spec
from tests.unit.runtime.contract import archive

TRUE = Command(argv=("true",))
FOREVER = Command(argv=("sleep", "infinity"))
SLEEPS = SandboxLifetime(idle_timeout=60, on_idle="sleep")


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    """A fleet with one sandbox, which runs."""
    estate = MemoryFleet()
    estate.fleet.create(spec(), SLEEPS)
    estate.fleet.start("one")
    yield estate
    estate.fleet.close()


@pytest.fixture
def asleep(estate: MemoryFleet) -> MemoryFleet:
    estate.clock.now += 60
    assert estate.fleet.sleep_idle() == ("one",)
    return estate


def state(fleet: Fleet) -> str:
    [info] = fleet.list()
    assert fleet.info("one") == fleet.status("one").info == info
    return info.state


def starts(estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the runtime is told to start, from now on."""
    found: list[str] = []
    start = estate.runtime.start

    def counted(name: str) -> object:
        found.append(name)
        return start(name)

    monkeypatch.setattr(estate.runtime, "start", counted)
    return found


# Falling asleep ---------------------------------------------------------------------------------------


def test_an_idle_one_sleeps_and_is_not_removed(estate: MemoryFleet) -> None:
    estate.clock.now += 59
    assert estate.fleet.sleep_idle() == ()
    estate.clock.now += 1
    assert estate.fleet.remove_expired() == ()
    assert estate.fleet.sleep_idle() == ("one",)
    assert state(estate.fleet) == "asleep"
    assert estate.fleet.info("one").exit_code is None
    estate.clock.now += 10**6
    assert (estate.fleet.sleep_idle(), estate.fleet.remove_expired()) == ((), ())


def test_one_in_use_does_not_sleep(estate: MemoryFleet) -> None:
    process = estate.fleet.spawn("one", FOREVER)
    estate.clock.now += 1000
    assert estate.fleet.sleep_idle() == ()
    process.kill(0)
    process.wait(30)
    assert estate.fleet.sleep_idle() == ()
    estate.clock.now += 60
    assert estate.fleet.sleep_idle() == ("one",)


def test_one_that_is_used_while_it_is_judged_goes_on(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = estate.runtime.info

    def used_meanwhile(name: str) -> object:
        estate.fleet.touch(name)
        return info(name)

    estate.clock.now += 60
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "info", used_meanwhile)
        assert estate.fleet.sleep_idle() == ()
    assert state(estate.fleet) == "running"


@pytest.mark.parametrize("end", ["pause", "stop"])
def test_a_paused_or_stopped_one_stays_as_it_is(estate: MemoryFleet, end: str) -> None:
    getattr(estate.fleet, end)("one")
    before = state(estate.fleet)
    estate.clock.now += 1000
    assert estate.fleet.sleep_idle() == estate.fleet.sleep_idle() == ()
    assert state(estate.fleet) == before
    {"pause": estate.fleet.resume, "stop": estate.fleet.start}[end]("one")
    estate.clock.now += 60
    assert estate.fleet.sleep_idle() == ("one",)


def test_one_that_cannot_be_stopped_is_tried_again(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise EngineError("the engine did not stop a container", "see its log")

    estate.clock.now += 60
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "stop", fail)
        assert estate.fleet.sleep_idle() == ()
    assert state(estate.fleet) == "running"
    assert estate.fleet.sleep_idle() == ("one",)


def test_one_that_would_lose_its_files_is_refused(estate: MemoryFleet) -> None:
    bounded = spec("two", limits=SandboxLimits(disk_mib=4))
    with pytest.raises(SpecError, match="on_idle"):
        estate.fleet.create(bounded, SLEEPS)
    assert len(estate.fleet.list()) == 1
    estate.fleet.create(bounded)
    estate.fleet.start("two")
    with pytest.raises(SandboxStateError, match="would lose its files"):
        estate.fleet.sleep("two")
    assert estate.fleet.info("two").state == "running"


def test_it_is_told_to_sleep_whatever_runs_in_it(estate: MemoryFleet) -> None:
    process = estate.fleet.spawn("one", FOREVER)
    estate.fleet.sleep("one")
    estate.fleet.sleep("one")
    assert state(estate.fleet) == "asleep"
    with pytest.raises(SandboxDiedError):
        process.wait(30)


def test_only_one_that_runs_is_told_to_sleep(estate: MemoryFleet) -> None:
    with pytest.raises(SandboxNotFoundError):
        estate.fleet.sleep("nobody")
    estate.fleet.pause("one")
    with pytest.raises(SandboxStateError, match="paused"):
        estate.fleet.sleep("one")
    estate.fleet.stop("one")
    with pytest.raises(SandboxDiedError):
        estate.fleet.sleep("one")
    estate.runtime.create(spec("strange"))
    with pytest.raises(SandboxStateError, match="not created by this fleet"):
        estate.fleet.sleep("strange")


# Waking -----------------------------------------------------------------------------------------------


def _get(fleet: Fleet) -> None:
    with fleet.get("one", "/workspace") as found:
        assert found.read(1)


USES: dict[str, Callable[[Fleet], object]] = {
    "exec": lambda fleet: fleet.exec("one", TRUE),
    "spawn": lambda fleet: fleet.spawn("one", TRUE).wait(30),
    "put": lambda fleet: fleet.put("one", "/workspace", archive(a=b"1")),
    "get": _get,
    "wake": lambda fleet: fleet.wake("one"),
    "start": lambda fleet: fleet.start("one"),
}


@pytest.mark.parametrize("use", USES)
def test_a_use_wakes_it(asleep: MemoryFleet, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = starts(asleep, monkeypatch)
    USES[use](asleep.fleet)
    assert state(asleep.fleet) == "running"
    # Starting a sandbox that runs does nothing.
    assert found == (["one", "one"] if use == "start" else ["one"])
    assert asleep.fleet.status("one").idle == 0


def test_looking_at_it_does_not_wake_it(asleep: MemoryFleet) -> None:
    asleep.fleet.create(spec(), SLEEPS)
    asleep.fleet.expose("one", 8000)
    asleep.fleet.touch("one")
    assert state(asleep.fleet) == "asleep"


def test_many_calls_at_once_start_it_once(asleep: MemoryFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    found = starts(asleep, monkeypatch)
    barrier = threading.Barrier(16)
    results: list[int] = []

    def call() -> None:
        barrier.wait(30)
        results.append(asleep.fleet.exec("one", TRUE).exit_code)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (found, results) == (["one"], [0] * 16)


def test_a_call_that_comes_while_it_falls_asleep_wakes_it(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling, go_on = threading.Event(), threading.Event()
    stop = estate.runtime.stop

    def slow(name: str) -> None:
        falling.set()
        assert go_on.wait(30)
        stop(name)

    monkeypatch.setattr(estate.runtime, "stop", slow)
    estate.clock.now += 60
    sleeper = threading.Thread(target=estate.fleet.sleep_idle)
    sleeper.start()
    assert falling.wait(30)
    results: list[int] = []
    caller = threading.Thread(target=lambda: results.append(estate.fleet.exec("one", TRUE).exit_code))
    caller.start()
    go_on.set()
    sleeper.join(30)
    caller.join(30)
    assert results == [0]
    assert state(estate.fleet) == "running"


def test_one_that_cannot_be_woken_stays_asleep_and_is_tried_again(
    asleep: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise EngineError("the engine did not start a container", "see its log")

    with monkeypatch.context() as patch:
        patch.setattr(asleep.runtime, "start", fail)
        with pytest.raises(EngineError):
            asleep.fleet.exec("one", TRUE)
    assert state(asleep.fleet) == "asleep"
    assert asleep.fleet.exec("one", TRUE).exit_code == 0


def test_its_port_is_closed_after_it_slept_and_the_reason_is_said(asleep: MemoryFleet) -> None:
    with pytest.raises(PortClosedError, match="it has slept, which ends its programs"):
        asleep.fleet.dial("one", 8000)
    assert state(asleep.fleet) == "running"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asleep.runtime.ports["one", 8000] = listener.getsockname()[:2]
        asleep.fleet.dial("one", 8000).close()


# What is not woken ------------------------------------------------------------------------------------


def test_its_time_ends_while_it_sleeps(estate: MemoryFleet) -> None:
    terms = SandboxLifetime(timeout=100, idle_timeout=60, on_idle="sleep")
    estate.fleet.create(spec("two"), terms)
    estate.fleet.start("two")
    estate.clock.now += 60
    assert estate.fleet.sleep_idle() == ("one", "two")
    estate.clock.now += 40
    assert estate.fleet.remove_expired() == ("two",)
    with pytest.raises(SandboxNotFoundError):
        estate.fleet.exec("two", TRUE)


def test_one_that_sleeps_on_demand_is_removed_when_idle(estate: MemoryFleet) -> None:
    estate.fleet.create(spec("two"), SandboxLifetime(idle_timeout=60))
    estate.fleet.start("two")
    estate.fleet.sleep("two")
    estate.clock.now += 60
    assert estate.fleet.remove_expired() == ("two",)


def test_a_stopped_one_no_longer_sleeps(asleep: MemoryFleet) -> None:
    asleep.fleet.stop("one")
    assert state(asleep.fleet) == "stopped"
    with pytest.raises(SandboxDiedError):
        asleep.fleet.exec("one", TRUE)
    asleep.fleet.wake("one")
    assert state(asleep.fleet) == "stopped"


@pytest.mark.parametrize("call", ["pause", "resume"])
def test_it_is_neither_paused_nor_resumed(asleep: MemoryFleet, call: str) -> None:
    with pytest.raises(SandboxStateError, match="asleep") as caught:
        getattr(asleep.fleet, call)("one")
    assert caught.value.hint == "wake it first"
    assert state(asleep.fleet) == "asleep"


def _sleeping(revoked: Callable[[], set[str]], offenders: set[str], check: Callable[[], None]) -> Fleet:
    runtime = FakeRuntime(images={"any"})
    fleet = Fleet(runtime, canary_offenders=lambda: offenders, revoked=revoked, check=check, tick=None)
    fleet.create(spec())
    fleet.start("one")
    fleet.sleep("one")
    return fleet


def test_a_revoked_one_is_not_woken() -> None:
    revoked: set[str] = {"one"}
    fleet = _sleeping(lambda: revoked, set(), lambda: None)
    for use in USES.values():
        with pytest.raises(SandboxStateError, match="its access is revoked") as caught:
            use(fleet)
        assert "egress kill --undo one" in caught.value.hint
    assert state(fleet) == "asleep"
    revoked.clear()
    assert fleet.exec("one", TRUE).exit_code == 0
    fleet.close()


def test_none_is_woken_without_an_answer_of_the_proxy() -> None:
    def silent() -> set[str]:
        raise GatewayError("no proxy is running here", "start one")

    fleet = _sleeping(silent, set(), lambda: None)
    with pytest.raises(GatewayError):
        fleet.exec("one", TRUE)
    assert state(fleet) == "asleep"
    fleet.close()


def test_an_offender_that_sleeps_is_stopped_for_good() -> None:
    offenders: set[str] = set()
    fleet = _sleeping(set, offenders, lambda: None)
    offenders.add("one")
    fleet.offenders.stop_new()
    assert state(fleet) == "stopped"
    with pytest.raises(SandboxDiedError):
        fleet.exec("one", TRUE)
    with pytest.raises(SandboxStateError, match="sent a canary"):
        fleet.start("one")
    fleet.close()


def test_one_that_sleeps_is_removed_and_its_name_is_free(asleep: MemoryFleet) -> None:
    asleep.fleet.remove("one")
    with pytest.raises(SandboxNotFoundError):
        asleep.fleet.wake("one")
    asleep.fleet.create(spec(), SLEEPS)
    assert state(asleep.fleet) == "created"


def test_the_next_one_of_its_name_is_not_put_to_sleep_in_its_place(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, exclusive = estate.fleet, estate.fleet._exclusive

    def late(name: str) -> AbstractContextManager[None]:
        fleet.remove(name)
        fleet.create(spec(ports=(81,)), SLEEPS)
        fleet.start(name)
        return exclusive(name)

    monkeypatch.setattr(fleet._sleep, "_exclusive", late)
    with pytest.raises(SandboxNotFoundError):
        fleet.sleep("one")
    assert state(fleet) == "running"


def test_a_thread_puts_it_to_sleep() -> None:
    estate = MemoryFleet()
    fleet = Fleet(FakeRuntime(images={"any"}), tick=0.01)
    try:
        with fleet.events() as events:
            fleet.create(spec(), SandboxLifetime(idle_timeout=0.01, on_idle="sleep"))
            fleet.start("one")
            assert "died" in iter(lambda: next(events).kind, None)
            assert fleet.exec("one", TRUE).exit_code == 0
    finally:
        fleet.close()
        estate.fleet.close()


def test_another_process_sleeps_and_wakes_it(estate: MemoryFleet) -> None:
    with served(estate.fleet) as remote:
        assert remote.create(spec(), SLEEPS).state == "running"
        remote.sleep("one")
        assert remote.status("one").info.state == "asleep"
        assert remote.status("one").terms == SLEEPS
        assert remote.exec("one", TRUE).exit_code == 0
        remote.sleep("one")
        remote.wake("one")
        assert remote.info("one").state == "running"


def test_a_fleet_without_its_proxy_wakes_none() -> None:
    is_gone: list[bool] = []

    def check() -> None:
        if is_gone:
            raise ProxyFailedError("the proxy is gone")

    fleet = _sleeping(set, set(), check)
    is_gone.append(True)
    with pytest.raises(ProxyFailedError):
        fleet.exec("one", TRUE)
    assert state(fleet) == "asleep"
    fleet.close()
