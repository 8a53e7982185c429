"""The regular work of a fleet goes on after errors that nobody expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from egress.fleet import SandboxLifetime
from egress.fleet.fleet import Fleet
from egress.fleet.tending import cause_and_hint, tend
from egress.runtime.errors import EngineError
from egress.runtime.fake import FakeRuntime
from tests.fleet.memory_fleet import MemoryFleet, spec


def test_each_step_is_taken_whatever_happens_in_the_others() -> None:
    taken: list[str] = []

    def fail() -> None:
        taken.append("fails")
        raise OSError("an input of a sandbox")

    tend((fail, lambda: taken.append("works")))
    assert taken == ["fails", "works"]


def test_a_log_does_not_repeat_the_text_of_an_unexpected_error() -> None:
    assert cause_and_hint(EngineError("the cause", "the cure")) == ("the cause", "the cure")
    assert cause_and_hint(ValueError("a secret"))[0] == "ValueError"


def failing_for(name: str, function: Callable[[str], None]) -> Callable[[str], None]:
    def call(given: str) -> None:
        if given == name:
            raise PermissionError("not now")
        function(given)

    return call


def test_one_sandbox_that_cannot_be_removed_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estate = MemoryFleet()
    for name in ("one", "two"):
        estate.fleet.create(spec(name), SandboxLifetime(timeout=1))
    estate.clock.now += 2
    with monkeypatch.context() as patch:
        patch.setattr(estate.runtime, "remove", failing_for("one", estate.runtime.remove))
        assert estate.fleet.remove_expired() == ("two",)
    assert estate.fleet.remove_expired() == ("one",)
    estate.fleet.close()


def test_an_offender_that_cannot_be_stopped_is_tried_again_and_does_not_save_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = FakeRuntime(images={"any"})
    fleet = Fleet(runtime, canary_offenders=lambda: {"one", "two"}, tick=None)
    for name in ("one", "two"):
        fleet.create(spec(name))
        fleet.start(name)
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "stop", failing_for("one", runtime.stop))
        fleet.offenders.stop_new()
    assert [fleet.info(name).state for name in ("one", "two")] == ["running", "stopped"]
    fleet.offenders.stop_new()
    assert fleet.info("one").state == "stopped"
    fleet.close()


def test_the_thread_outlives_an_error_that_nobody_expected() -> None:
    answers: Iterator[set[str] | None] = iter([None, None])

    def offenders() -> set[str]:
        if next(answers, "last") is None:
            raise OSError("the file system went away")
        return {"one"}

    fleet = Fleet(FakeRuntime(images={"any"}), canary_offenders=offenders, tick=0.01)
    try:
        with fleet.events() as events:
            fleet.create(spec())
            fleet.start("one")
            assert "died" in iter(lambda: next(events).kind, None)
    finally:
        fleet.close()
