"""The fleet that is used where none was named is opened once, and ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from egress.runtime.errors import EngineUnavailableError, SpecError
from egress.runtime.fake import FakeRuntime
from egress.runtime.protocol import Runtime
from egress.sandbox import default_fleet
from egress.sandbox.default_fleet import DEFAULT_FLEET, DefaultFleet
from egress.sandbox.handle import Sandbox


class Fleets:
    def __init__(self) -> None:
        self.opened = self.closed = 0

    @contextmanager
    def open(self) -> Iterator[Runtime]:
        self.opened += 1
        yield FakeRuntime()
        self.closed += 1


def test_it_is_opened_once_and_anew_after_its_end() -> None:
    fleets = Fleets()
    shared = DefaultFleet(fleets.open)
    assert shared.get() is shared.get()
    assert (fleets.opened, fleets.closed) == (1, 0)
    shared.close()
    shared.close()
    assert (fleets.opened, fleets.closed) == (1, 1)
    shared.get()
    assert fleets.opened == 2
    shared.close()


def test_what_keeps_it_from_being_opened_is_told_each_time() -> None:
    def fail() -> None:
        raise EngineUnavailableError("no engine answers", "start one")

    shared = DefaultFleet(fail)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            shared.get()


def test_a_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fleets = Fleets()
    asked: list[str] = []
    named: dict[str, DefaultFleet] = {}

    def opened(kind: str) -> AbstractContextManager[Runtime]:
        asked.append(kind)
        return fleets.open()

    monkeypatch.setattr(default_fleet, "_open_named", opened)
    monkeypatch.setattr(default_fleet, "_NAMED_FLEETS", named)
    with Sandbox.create(name="one", image="any", runtime="docker"):
        assert [info.name for info in Sandbox.list(runtime="docker")] == ["one"]
        assert Sandbox.connect("one", runtime="docker").status() == "running"
        assert Sandbox.list(runtime="namespace") == []
    assert (asked, fleets.opened) == (["docker", "namespace"], 2)
    for fleet in named.values():
        fleet.close()
    assert fleets.closed == 2


@pytest.mark.parametrize("name", ["no such kind!", "", "-x", "a/b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="runtime"):
        Sandbox.create(image="any", runtime=name)


def test_a_sandbox_is_made_in_it_unless_another_runtime_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fleets = Fleets()
    monkeypatch.setattr(DEFAULT_FLEET, "_opened", fleets.open)
    with Sandbox.create(name="one", image="any"):
        assert [info.name for info in Sandbox.list()] == ["one"]
        assert Sandbox.connect("one").status() == "running"
    assert fleets.opened == 1
    DEFAULT_FLEET.close()
