"""Single sandboxes before a proxy in memory: what becomes of their processes, and of those that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.errors import SandboxDiedError, SandboxStateError
from egress.runtime.fake import FakeProxyClient
from egress.runtime.namespace import sandbox as boxes
from egress.runtime.namespace import sandbox_contents
from egress.runtime.namespace.mount_plan import MountSource
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.spec import Command, Spec


@pytest.fixture
def runtime(namespaces: None, tmp_path: Path) -> Iterator[NamespaceRuntime]:
    found = NamespaceRuntime(FakeProxyClient(), tmp_path / "h")
    yield found
    found.close()
    assert list((tmp_path / "h").iterdir()) == []


@pytest.fixture
def started(runtime: NamespaceRuntime) -> NamespaceRuntime:
    runtime.create(Spec(name="one", image="host"))
    runtime.start("one")
    return runtime


def run(runtime: NamespaceRuntime, script: str) -> str:
    return runtime.exec("one", Command(argv=("/bin/sh", "-c", script))).text


def test_what_a_command_leaves_behind_is_taken_in(started: NamespaceRuntime) -> None:
    script = "for n in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.3; grep -l 'State:.Z' /proc/[0-9]*/status"
    assert run(started, script) == ""


def test_time_is_measured_for_each_command(started: NamespaceRuntime) -> None:
    late = [started.spawn("one", Command(argv=("sleep", "60"), timeout=each)) for each in (0.2, 0.1, 60)]
    assert [each.wait(30).timed_out for each in late[:2]] == [True, True]
    late[2].kill(60)
    assert late[2].wait(30).exit_code == 143


def test_a_second_end_can_be_less_polite(started: NamespaceRuntime) -> None:
    script = "trap '' TERM; touch ready; sleep 60; sleep 60"
    process = started.spawn("one", Command(argv=("/bin/sh", "-c", script)))
    run(started, "until [ -e ready ]; do sleep 0.01; done")
    process.kill(60)
    process.kill(0)
    assert process.wait(30).exit_code == 137


def test_a_first_process_can_be_begun_again_and_again(started: NamespaceRuntime) -> None:
    numbers = set()
    for _ in range(4):
        numbers.add(started._register.get("one").launcher.first)
        assert run(started, "echo $$") != "1\n"
        started.stop("one")
        started.start("one")
    assert len(numbers) == 4


@pytest.mark.parametrize("freezes", [True, False])
def test_it_is_held_with_and_without_a_group_that_freezes(
    started: NamespaceRuntime, monkeypatch: pytest.MonkeyPatch, freezes: bool
) -> None:
    if not freezes:
        monkeypatch.setattr(boxes.NamespaceSandbox, "can_freeze", property(lambda _: False))
    process = started.spawn("one", Command(argv=("sleep", "0.1")))
    started.pause("one")
    with pytest.raises(TimeoutError):
        process.wait(0.4)
    started.resume("one")
    assert process.wait(30).exit_code == 0


def test_nothing_can_be_asked_of_one_that_has_ended(started: NamespaceRuntime) -> None:
    space = started._register.get("one").launcher
    space.stop()
    space.stop()
    with pytest.raises(SandboxDiedError):
        space.spawn([0])
    with pytest.raises(SandboxDiedError):
        space.pause_commands(is_paused=True)
    space.close()
    space.close()
    assert not space.is_alive()
    with pytest.raises(SandboxDiedError):
        space.start()


def test_its_age_is_known(started: NamespaceRuntime) -> None:
    created = started.info("one").created
    assert created is not None
    assert created.tzinfo is not None


def test_one_that_cannot_be_planned_leaves_nothing(
    runtime: NamespaceRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_contents, "plan_mounts", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        runtime.create(Spec(name="one", image="host"))
    assert [each.suffix for each in runtime._home.iterdir()] == [".lease"]


def test_a_part_of_the_host_that_is_gone_by_then_is_named(
    runtime: NamespaceRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = sandbox_contents.plan_mounts

    def with_another(*arguments: object) -> object:
        layout = planned(*arguments)  # type: ignore[arg-type]
        layout.sources.append(MountSource("/no/such/place", 1))
        return layout

    monkeypatch.setattr(sandbox_contents, "plan_mounts", with_another)
    with pytest.raises(SandboxStateError, match="at /no/such/place: no such file"):
        runtime.create(Spec(name="one", image="host"))
    assert [each.suffix for each in runtime._home.iterdir()] == [".lease"]
