"""What every runtime promises, as cases that run against each of them.

A case is a function of a `Bench`. It uses no program but those that the runtime in memory has as well: true,
false, echo, cat, env, pwd, mkdir, sleep.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable
from typing import Protocol

import pytest

from egress.runtime.errors import (
    ArchiveError,
    CommandError,
    ExecTimeoutError,
    ImageMissingError,
    PathNotFoundError,
    PortClosedError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
)
from egress.runtime.protocol import Output, Runtime
from egress.runtime.spec import MIB, Command, Event, ExecResult, SandboxLimits, Spec


class RuntimeBench(Protocol):
    """A runtime, and what it takes for an image."""

    runtime: Runtime

    def spec(self, name: str, **values: object) -> Spec: ...


Case = Callable[[RuntimeBench], None]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def running(bench: RuntimeBench, name: str = "one", **values: object) -> Runtime:
    bench.runtime.create(bench.spec(name, **values))
    bench.runtime.start(name)
    return bench.runtime


def run(bench: RuntimeBench, *words: str, **values: object) -> ExecResult:
    return bench.runtime.exec("one", Command(argv=words, **values))  # type: ignore[arg-type]


def archive(**files: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    out.seek(0)
    return out


# Coming and going -----------------------------------------------------------------------------------


@case
def it_goes_from_created_to_running_to_stopped_and_back(bench: RuntimeBench) -> None:
    runtime = bench.runtime
    assert runtime.create(bench.spec("one", profile=None)).state == "created"
    assert runtime.start("one").state == "running"
    assert runtime.start("one").state == "running"
    runtime.stop("one")
    assert runtime.info("one").state == "stopped"
    assert runtime.start("one").state == "running"


@case
def a_name_is_taken_until_it_is_removed(bench: RuntimeBench) -> None:
    runtime = running(bench)
    with pytest.raises(SandboxExistsError):
        runtime.create(bench.spec("one"))
    assert run(bench, "true").exit_code == 0
    runtime.remove("one")
    runtime.remove("one")
    running(bench)
    assert run(bench, "true").exit_code == 0


@case
def what_is_not_there_is_said_to_be_missing(bench: RuntimeBench) -> None:
    runtime = bench.runtime
    for act in (
        runtime.start, runtime.stop, runtime.pause, runtime.resume, runtime.info,
        lambda name: runtime.exec(name, Command(argv=("true",))),
        lambda name: runtime.put(name, "/", archive()),
    ):  # fmt: skip
        with pytest.raises(SandboxNotFoundError):
            act("nobody")
    with pytest.raises(SandboxNotFoundError), runtime.get("nobody", "/"):
        pass
    with pytest.raises(ImageMissingError):
        runtime.create(Spec(name="one", image="no-such-image:ever"))
    assert runtime.list() == ()


@case
def it_is_found_by_its_labels(bench: RuntimeBench) -> None:
    runtime = bench.runtime
    runtime.create(bench.spec("two", labels={"team": "a", "kind": "x"}))
    runtime.create(bench.spec("one", labels={"team": "a"}))
    runtime.create(bench.spec("three"))
    assert [each.name for each in runtime.list()] == ["one", "three", "two"]
    assert [each.name for each in runtime.list({"team": "a"})] == ["one", "two"]
    assert [each.name for each in runtime.list({"team": "a", "kind": "x"})] == ["two"]
    assert runtime.list({"team": "b"}) == ()


@case
def only_what_runs_takes_commands(bench: RuntimeBench) -> None:
    runtime = bench.runtime
    runtime.create(bench.spec("one"))
    with pytest.raises(SandboxStateError):
        run(bench, "true")
    with pytest.raises(SandboxStateError):
        runtime.pause("one")
    runtime.start("one")
    runtime.pause("one")
    runtime.pause("one")
    with pytest.raises(SandboxStateError):
        run(bench, "true")
    runtime.resume("one")
    runtime.resume("one")
    assert run(bench, "true").exit_code == 0
    runtime.pause("one")
    runtime.stop("one")
    with pytest.raises(SandboxDiedError):
        run(bench, "true")
    with pytest.raises(SandboxDiedError):
        runtime.resume("one")


@case
def what_happens_is_told(bench: RuntimeBench) -> None:
    runtime = bench.runtime
    with runtime.events() as events:
        runtime.create(bench.spec("one"))
        runtime.start("one")
        runtime.pause("one")
        runtime.resume("one")
        runtime.stop("one")
        runtime.remove("one")
        found = []
        for event in events:
            found.append(event)
            if event.kind == "removed":
                break
    kinds = ("created", "started", "paused", "resumed", "died", "removed")
    assert found == [Event(kind, "one") for kind in kinds]  # type: ignore[arg-type]


# Commands -------------------------------------------------------------------------------------------


@case
def a_command_has_a_status_and_two_streams(bench: RuntimeBench) -> None:
    running(bench)
    assert run(bench, "echo", "a  b").stdout_bytes == b"a  b\n"
    failed = run(bench, "cat", "nothing-here")
    assert (failed.exit_code, failed.stdout_bytes, bool(failed.stderr_bytes)) == (1, b"", True)
    missing = run(bench, "no-such-program")
    assert (missing.exit_code, missing.stderr) == (127, "command not found: no-such-program\n")
    with pytest.raises(CommandError, match="status 1"):
        run(bench, "false").check()


@case
def words_are_words_whatever_is_in_them(bench: RuntimeBench) -> None:
    running(bench)
    words = ("$HOME", "`id`", "; rm", "a\nb", "-n'\"", "ü", "*")
    assert run(bench, "echo", *words).stdout_bytes == " ".join(words).encode() + b"\n"


@case
def a_command_starts_where_it_is_told(bench: RuntimeBench) -> None:
    running(bench)
    assert run(bench, "pwd").text == "/workspace\n"
    assert run(bench, "pwd", cwd="/tmp").text == "/tmp\n"
    with pytest.raises(PathNotFoundError, match="/nowhere"):
        run(bench, "pwd", cwd="/nowhere")


@case
def its_environment_is_that_of_the_sandbox_and_its_own(bench: RuntimeBench) -> None:
    running(bench, env={"ONE": "1", "TWO": "2", "HTTPS_PROXY": "http://elsewhere"})
    found = run(bench, "env", env={"TWO": "two", "THREE": "3 3"}).text.splitlines()
    assert {"ONE=1", "TWO=two", "THREE=3 3"} <= set(found)
    assert "HTTPS_PROXY=http://elsewhere" not in found
    assert any(line.startswith(("HTTPS_PROXY=http://198.1", "HTTPS_PROXY=http://10.")) for line in found)


@case
def input_comes_from_bytes_or_a_file_or_not_at_all(bench: RuntimeBench) -> None:
    running(bench)
    assert run(bench, "cat", input=b"x" * 300_000).stdout_bytes == b"x" * 300_000
    assert run(bench, "cat", input=io.BytesIO(b"from a file")).stdout_bytes == b"from a file"
    assert run(bench, "cat", input=b"").stdout_bytes == b""
    assert run(bench, "cat").stdout_bytes == b""


@case
def output_is_told_as_it_comes_and_kept_up_to_a_size(bench: RuntimeBench) -> None:
    runtime = running(bench)
    told: list[bytes] = []
    command = Command(argv=("cat",), input=b"y" * 100_000, most_output=10)
    result = runtime.exec("one", command, Output(stdout=told.append))
    assert (result.stdout_bytes, result.truncated) == (b"y" * 10, True)
    assert b"".join(told) == b"y" * 100_000
    whole = run(bench, "echo", "123", most_output=4)
    assert (whole.stdout_bytes, whole.truncated) == (b"123\n", False)


@case
def time_that_is_over_is_124(bench: RuntimeBench) -> None:
    running(bench)
    late = run(bench, "sleep", "60", timeout=0.2)
    assert (late.exit_code, late.timed_out) == (124, True)
    assert late.duration >= 0.2
    with pytest.raises(ExecTimeoutError):
        late.check()
    early = run(bench, "true", timeout=60)
    assert (early.exit_code, early.timed_out) == (0, False)


@case
def a_process_is_written_to(bench: RuntimeBench) -> None:
    runtime = running(bench)
    process = runtime.spawn("one", Command(argv=("cat",)))
    with pytest.raises(TimeoutError):
        process.wait(0.01)
    process.write(b"one ")
    process.write(b"two")
    process.close_input()
    assert process.wait(30).stdout_bytes == b"one two"
    process.write(b"too late")


@case
def a_process_is_killed(bench: RuntimeBench) -> None:
    runtime = running(bench)
    process = runtime.spawn("one", Command(argv=("sleep", "infinity")))
    process.kill()
    result = process.wait(30)
    assert result.exit_code in (137, 143)
    assert not result.timed_out
    process.kill()
    assert run(bench, "true").exit_code == 0


@case
def what_is_under_way_settles_when_the_sandbox_ends(bench: RuntimeBench) -> None:
    runtime = running(bench)
    for end in (runtime.stop, runtime.remove):
        runtime.start("one")
        process = runtime.spawn("one", Command(argv=("sleep", "infinity")))
        end("one")
        with pytest.raises(SandboxDiedError):
            process.wait(30)


@case
def several_commands_run_side_by_side(bench: RuntimeBench) -> None:
    runtime = running(bench)
    found: dict[int, bytes] = {}

    def ask(number: int) -> None:
        found[number] = runtime.exec("one", Command(argv=("echo", str(number)))).stdout_bytes

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: b"%d\n" % number for number in range(8)}


# Ports and what is ready -------------------------------------------------------------------------


@case
def a_port_on_which_nothing_listens_is_closed(bench: RuntimeBench) -> None:
    bench.runtime.create(bench.spec("one"))
    with pytest.raises(SandboxStateError):
        bench.runtime.dial("one", 8000)
    bench.runtime.start("one")
    with pytest.raises(PortClosedError, match="8000"):
        bench.runtime.dial("one", 8000)
    with pytest.raises(SpecError):
        bench.runtime.dial("one", 0)
    with pytest.raises(SandboxNotFoundError):
        bench.runtime.dial("nobody", 8000)


@case
def what_is_kept_ready_is_bounded_and_ends(bench: RuntimeBench) -> None:
    for count in (-1, 65):
        with pytest.raises(SpecError):
            bench.runtime.prepare(bench.spec("one"), count)
    with pytest.raises(ImageMissingError):
        bench.runtime.prepare(Spec(name="one", image="no-such-image:ever"), 1)
    bench.runtime.prepare(bench.spec("one"), 1)
    # Whether it is taken, or was not there in time: nobody can tell.
    running(bench, env={"ONE": "1"}, labels={"team": "a"})
    assert "ONE=1" in run(bench, "env").text.splitlines()
    assert [each.name for each in bench.runtime.list({"team": "a"})] == ["one"]
    bench.runtime.prepare(bench.spec("two"), 0)
    bench.runtime.prepare(bench.spec("two"), 0)
    assert run(bench, "true").exit_code == 0


# Files ----------------------------------------------------------------------------------------------


@case
def files_come_and_go_as_archives(bench: RuntimeBench) -> None:
    runtime = running(bench)
    runtime.put("one", "/workspace", archive(a=b"first", b__c=b"second"))
    assert run(bench, "cat", "a", "b/c").stdout_bytes == b"firstsecond"
    with runtime.get("one", "/workspace") as file, tarfile.open(fileobj=file) as tar:
        assert sorted(tar.getnames()) == [".", "a", "b", "b/c"]
    with runtime.get("one", "/workspace/b/c") as file, tarfile.open(fileobj=file) as tar:
        assert tar.getnames() == ["c"]
        found = tar.extractfile("c")
        assert found is not None
        assert found.read() == b"second"


@case
def places_that_are_not_there_are_named(bench: RuntimeBench) -> None:
    runtime = running(bench)
    with pytest.raises(PathNotFoundError, match="/nowhere"):
        runtime.put("one", "/nowhere", archive(a=b""))
    with pytest.raises(PathNotFoundError, match="/nowhere"), runtime.get("one", "/nowhere"):
        pass


@case
def an_archive_that_leads_out_is_refused(bench: RuntimeBench) -> None:
    runtime = running(bench)
    run(bench, "mkdir", "/workspace/in")
    with pytest.raises(ArchiveError):
        runtime.put("one", "/workspace/in", archive(**{"..__out": b"x"}))
    assert run(bench, "cat", "/workspace/out").exit_code == 1
    with pytest.raises(ArchiveError):
        runtime.put("one", "/workspace", io.BytesIO(b"no archive at all" * 100))


@case
def what_was_written_outlives_a_stop_and_not_a_removal(bench: RuntimeBench) -> None:
    runtime = running(bench)
    runtime.put("one", "/workspace", archive(a=b"kept"))
    runtime.stop("one")
    runtime.start("one")
    assert run(bench, "cat", "a").stdout_bytes == b"kept"
    runtime.remove("one")
    running(bench)
    assert run(bench, "cat", "a").exit_code == 1


@case
def a_bounded_disk_has_an_end_and_is_empty_after_a_stop(bench: RuntimeBench) -> None:
    runtime = running(bench, limits=SandboxLimits(disk_mib=1))
    with pytest.raises(SandboxStateError, match="was not completely unpacked"):
        runtime.put("one", "/workspace", archive(large=bytes(2 * MIB)))
    runtime.stop("one")
    runtime.start("one")
    runtime.put("one", "/workspace", archive(a=b"fits"))
    assert run(bench, "cat", "a").stdout_bytes == b"fits"
    runtime.stop("one")
    runtime.start("one")
    assert run(bench, "cat", "a").exit_code == 1
    assert run(bench, "pwd").text == "/workspace\n"


@case
def what_is_ready_is_bounded_for_whoever_asked_for_that_alone(bench: RuntimeBench) -> None:
    bounded = SandboxLimits(disk_mib=1)
    bench.runtime.prepare(bench.spec("ready", limits=bounded), 1)
    running(bench).put("one", "/workspace", archive(large=bytes(2 * MIB)))
    runtime = running(bench, "two", limits=bounded)
    with pytest.raises(SandboxStateError, match="was not completely unpacked"):
        runtime.put("two", "/workspace", archive(large=bytes(2 * MIB)))
    bench.runtime.prepare(bench.spec("ready", limits=bounded), 0)
