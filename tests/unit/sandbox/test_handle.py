"""The handle comes and goes, first in memory; commands are run by real shells."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from egress.errors import UsageError
from egress.fleet import Fleet
from egress.fleet.errors import SandboxDiffersError
from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import (
    SandboxDiedError,
    SandboxError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
    SpecTypeError,
    UnsupportedError,
)
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import MAX_READY, Info, Spec
from egress.sandbox import options
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


@pytest.mark.parametrize("promise", CASES["commands"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)


def test_a_line_runs_in_sh_where_there_is_no_bash(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "echo").symlink_to("/bin/echo")
    assert box.exec("echo $0 ${BASH_VERSION:-none}", env={"PATH": str(tmp_path)}).text == "sh none\n"
    with box.session(env={"PATH": str(tmp_path)}) as session:
        assert session.exec("echo ${BASH_VERSION:-none}").text == "none\n"


def test_a_callback_that_fails_is_no_silence(box: Sandbox) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    # The rest of the cut character is handed over when the process has ended.
    process = box.spawn(r"printf '\303'", on_stdout=fail)
    with pytest.raises(ZeroDivisionError):
        process.wait(30)
    with pytest.raises(ZeroDivisionError):
        box.exec(r"printf '\303'", on_stdout=fail)


WRONG_CREATIONS: dict[str, object] = {
    "name": 5, "image": 5, "profile": 5, "env": ["A=b"], "timeout": "5", "idle_timeout": "5", "memory": [],
    "cpus": "2", "pids": 64.5, "size": {}, "temporary": b"8m", "labels": {"a": 1}, "volumes": 5,
    "runtime": 5, "on_idle": 5, "snapshot": 5, "params": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), WRONG_CREATIONS.items())
def test_an_argument_of_the_wrong_type_is_named(fake: FakeRuntime, field: str, value: object) -> None:
    fleet = Fleet(fake, about=FleetInfo(kind="fake"), tick=None)
    with pytest.raises(SpecTypeError, match=field if field != "pids" else "processes") as caught:
        Sandbox.create(**{"image": "any", "runtime": fleet, field: value})  # type: ignore[arg-type]
    assert isinstance(caught.value, SandboxError)
    assert isinstance(caught.value, TypeError)
    assert caught.value.hint
    assert Sandbox.list(runtime=fleet) == []


def test_every_argument_of_a_sandbox_is_tried_with_a_wrong_type() -> None:
    assert set(WRONG_CREATIONS) == set(inspect.signature(Sandbox.create).parameters)


WRONG_CALLS: list[Callable[[Any], object]] = [
    lambda box: box.exec(5),
    lambda box: box.exec(None),
    lambda box: box.exec(b"true"),
    lambda box: box.exec(["echo", 5]),
    lambda box: box.exec("true", cwd=5),
    lambda box: box.exec("true", env=5),
    lambda box: box.exec("true", env={"A": 5}),
    lambda box: box.exec("true", env={5: "A"}),
    lambda box: box.exec("true", timeout="5"),
    lambda box: box.exec("cat", input=5),
    lambda box: box.exec("cat", input=io.StringIO("text")),
    lambda box: box.exec("true", on_stdout=5),
    lambda box: box.spawn(5),
    lambda box: box.spawn("true", on_stderr=5),
    lambda box: box.spawn("true", keep="5"),
    lambda box: box.spawn("cat").write(5),
    lambda box: box.session(shell=5).exec("true"),
    lambda box: box.session().exec(5),
    lambda box: box.session().exec("true", on_stdout=5),
    lambda box: box.pty(5),
    lambda box: box.pty(cols="80"),
    lambda box: box.wait_for_port("80"),
    lambda box: box.files.read(5),
    lambda box: box.files.write("a", 5),
    lambda box: box.files.rename("a", 5),
    lambda box: box.git.clone(5),
    lambda box: box.git.clone("https://git.example.com/a/b", depth="1"),
    lambda box: box.git.clone("https://git.example.com/a/b", branch=5),
    lambda _: Sandbox.connect(5, runtime=FakeRuntime()),  # type: ignore[arg-type]
    lambda _: Sandbox.prepare("2", image="any", runtime=FakeRuntime()),  # type: ignore[arg-type]
]


def test_a_call_with_a_wrong_type_says_so(box: Sandbox) -> None:
    for number, call in enumerate(WRONG_CALLS):
        with pytest.raises(SpecTypeError) as caught:
            call(box)
        assert caught.value.hint, number


def test_it_comes_and_goes_with_its_block(fake: FakeRuntime) -> None:
    with Sandbox.create(image="any", runtime=fake) as sandbox:
        assert sandbox.name.startswith("box-")
        assert repr(sandbox) == f"<Sandbox {sandbox.name!r}>"
        assert sandbox.status() == "running"
        assert sandbox.exec(["echo", "hello"]).text == "hello\n"
        assert sandbox.exec(["cat"], input="text").text == "text"
    with pytest.raises(SandboxNotFoundError):
        sandbox.info()
    sandbox.delete()


def test_it_is_paused_stopped_and_started(fake: FakeRuntime) -> None:
    sandbox = Sandbox.create(name="one", image="any", runtime=fake)
    sandbox.pause()
    with pytest.raises(SandboxStateError):
        sandbox.exec(["true"])
    sandbox.resume()
    sandbox.stop()
    with pytest.raises(SandboxDiedError):
        sandbox.exec(["true"])
    assert sandbox.status() == "stopped"
    sandbox.start()
    assert sandbox.exec(["true"]).exit_code == 0


def test_the_end_of_a_block_deletes_a_created_sandbox_and_leaves_a_connected_one(fake: FakeRuntime) -> None:
    with Sandbox.create(name="one", image="any", runtime=fake):
        with Sandbox.connect("one", runtime=fake) as connected:
            connected.exec(["true"])
        assert connected.status() == "running"
    with pytest.raises(SandboxNotFoundError):
        connected.info()


def test_it_is_found_by_name_and_label(fake: FakeRuntime) -> None:
    Sandbox.create(name="one", image="any", labels={"team": "a"}, runtime=fake)
    Sandbox.create(name="two", image="any", runtime=fake)
    assert Sandbox.connect("one", runtime=fake).exec(["true"]).exit_code == 0
    assert [info.name for info in Sandbox.list(runtime=fake)] == ["one", "two"]
    assert [info.name for info in Sandbox.list(labels={"team": "a"}, runtime=fake)] == ["one"]
    with pytest.raises(SandboxNotFoundError):
        Sandbox.connect("three", runtime=fake)
    with pytest.raises(SpecError):
        Sandbox.connect("../three", runtime=fake)


def test_in_a_fleet_the_same_again_is_the_one_that_is_there(fake: FakeRuntime) -> None:
    fleet = Fleet(fake, about=FleetInfo(kind="fake"), tick=None)
    one = Sandbox.create(name="one", image="any", memory="1g", timeout=60, runtime=fleet)
    again = Sandbox.create(name="one", image="any", memory=1024, timeout=60, runtime=fleet)
    assert one.info() == again.info()
    with pytest.raises(SandboxDiffersError, match=r"limits\.memory_mib"):
        Sandbox.create(name="one", image="any", memory="2g", timeout=60, runtime=fleet)
    with pytest.raises(SandboxDiffersError, match="timeout"):
        Sandbox.create(name="one", image="any", memory="1g", runtime=fleet)
    with pytest.raises(SandboxDiffersError, match=r"limits\.disk_mib"):
        Sandbox.create(name="one", image="any", memory="1g", size="1g", timeout=60, runtime=fleet)


def test_a_runtime_alone_says_what_it_cannot(fake: FakeRuntime) -> None:
    for values in ({"timeout": 5.0}, {"idle_timeout": 5.0}):
        with pytest.raises(UnsupportedError, match="after a timeout"):
            Sandbox.create(image="any", runtime=fake, **values)  # type: ignore[arg-type]
    assert Sandbox.list(runtime=fake) == []
    with pytest.raises(UnsupportedError, match="expose ports"):
        Sandbox.create(image="any", runtime=fake).expose(80)


def test_nothing_of_the_callers_environment_enters_but_what_is_named(
    fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED", "mine")
    monkeypatch.setenv("UNASKED", "mine too")
    sandbox = Sandbox.create(image="any", env={"ASKED": None, "SAID": "so"}, runtime=fake)
    found = sandbox.exec(["env"], env={"AGAIN": "x", "ASKED": "other"}).text.splitlines()
    assert {"ASKED=other", "SAID=so", "AGAIN=x"} <= set(found)
    assert not any("UNASKED" in line or "mine" in line for line in found)
    for wrong in ({"NOT_SET_ANYWHERE": None}, {"9": "x"}, {"A": "a\0b"}):
        with pytest.raises(UsageError):
            sandbox.exec(["true"], env=wrong)


def test_a_process_in_memory_is_used_alike(fake: FakeRuntime) -> None:
    sandbox = Sandbox.create(image="any", runtime=fake)
    with sandbox.spawn(["cat"]) as process:
        process.write("one\ntwo\n")
        process.close_stdin()
        assert list(process.stdout.lines()) == ["one", "two"]
        assert process.wait(30, check=True).text == "one\ntwo\n"
    process = sandbox.spawn(["sleep", "infinity"])
    sandbox.delete()
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    assert "lost" in repr(process)


class Recording(FakeRuntime):
    """One that remembers what it was to make, and to have ready."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Spec] = []
        self.ready: list[tuple[Spec, int]] = []

    def create(self, spec: Spec) -> Info:
        self.made.append(spec)
        return super().create(spec)

    def prepare(self, spec: Spec, count: int) -> None:
        super().prepare(spec, count)
        self.ready.append((spec, count))


def test_what_is_made_ahead_is_of_the_kind_that_is_made_then() -> None:
    """All but what is given to it when it is taken: a runtime would not take it otherwise."""
    runtime = Recording()
    Sandbox.prepare(2, image="any", memory="1g", cpus=0.5, pids=64, size="2g", temporary=8, runtime=runtime)
    Sandbox.create(
        image="any", memory="1g", cpus=0.5, pids=64, size="2g", temporary=8, env={"A": "b"}, runtime=runtime
    )
    [(ready, count)], [made] = runtime.ready, runtime.made
    assert count == 2
    assert replace(made, name=ready.name, env={}) == ready


def test_more_than_are_kept_is_an_error(fake: FakeRuntime) -> None:
    with pytest.raises(SpecError, match="count"):
        Sandbox.prepare(MAX_READY + 1, image="any", runtime=fake)


def test_it_is_whoever_makes_it_that_runs_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is mounted is writable; as `egress run` has it."""
    monkeypatch.setattr(options, "caller_ids", lambda: (501, 20))
    runtime = Recording()
    Sandbox.create(image="any", runtime=runtime)
    assert (runtime.made[0].user, runtime.made[0].group) == (501, 20)
