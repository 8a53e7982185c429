"""A fleet in another process keeps the same promises, with the same errors."""

from __future__ import annotations

import io
import os
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from egress.api.endpoint import UnixEndpoint
from egress.api.schema import MAX_PIECE_BYTES
from egress.api_server.server import ApiServer
from egress.fleet import Fleet, RemoteRuntime, SandboxLifetime
from egress.fleet.errors import FleetUnavailableError, SandboxDiffersError
from egress.fleet.remote import connect_if_served
from egress.runtime import disk_space
from egress.runtime.errors import (
    ArchiveError,
    PortClosedError,
    SandboxDiedError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
)
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.protocol import Output, Runtime
from egress.runtime.spec import Command, Spec, Terminal
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import MemoryFleet, PortMemoryRuntime, served, short_folder, spec
from tests.fleet.test_fleet import PROMISES
from tests.unit.runtime.contract import Case, RuntimeBench, archive

FOREVER = Command(argv=("sleep", "infinity"))


class OverTheSocket:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def spec(self, name: str, **values: object) -> Spec:
        return spec(name, **values)


@pytest.fixture
def bench() -> Iterator[RuntimeBench]:
    fleet = Fleet(FakeRuntime(images={"any"}), tick=None)
    with served(fleet) as remote:
        yield OverTheSocket(remote)
    fleet.close()


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    estate = MemoryFleet(PortMemoryRuntime({"shout": shout, "talk": talk_forever}))
    yield estate
    estate.fleet.close()


@pytest.fixture
def remote(estate: MemoryFleet) -> Iterator[RemoteRuntime]:
    with served(estate.fleet) as remote:
        yield remote


def talk_forever(call: ProgramCall) -> None:
    call.write(b"hello")
    call.run_on()


def shout(call: ProgramCall) -> None:
    call.write(b"x" * 500_000)
    call.complain(b"y" * 500_000)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda case: case.__name__)
def test_a_promise_of_runtimes_is_kept(promise: Case, bench: RuntimeBench) -> None:
    promise(bench)


# What a fleet adds ------------------------------------------------------------------------------------


def test_it_says_what_it_is(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    assert remote.about == estate.fleet.about


def test_terms_come_over(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.create(spec(), SandboxLifetime(timeout=60, owner="me"))
    assert remote.create(spec(), SandboxLifetime(timeout=60, owner="me")).name == "one"
    estate.clock.now += 20
    assert remote.status("one") == estate.fleet.status("one")
    remote.touch("one")
    assert remote.status("one").idle == 0
    with pytest.raises(SandboxDiffersError, match="other settings: timeout"):
        remote.create(spec(), SandboxLifetime(timeout=61, owner="me"))


def test_an_error_has_the_text_that_it_has_there(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    with pytest.raises(SandboxNotFoundError) as here:
        estate.fleet.info("nobody")
    with pytest.raises(SandboxNotFoundError) as there:
        remote.info("nobody")
    assert (there.value.message, there.value.hint) == (here.value.message, here.value.hint)


def test_what_is_made_ahead_is_made_there(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.prepare(spec(), 2)
    assert estate.runtime.prepared == [("any", 2)]


def test_a_port_is_dialled_there_and_the_connection_is_ours(
    estate: MemoryFleet, remote: RemoteRuntime
) -> None:
    remote.create(spec())
    with pytest.raises(PortClosedError):
        remote.dial("one", 80)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        estate.runtime.ports["one", 80] = listener.getsockname()[:2]
        with remote.dial("one", 80) as sock:
            peer, _ = listener.accept()
            with peer:
                sock.sendall(b"hello")
                assert peer.recv(10) == b"hello"
        assert not os.get_inheritable(listener.fileno())


def test_a_port_is_shown(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.create(spec())
    shown = remote.expose("one", 8000)
    assert (shown.sandbox, shown.port, shown.left) == ("one", 8000, None)
    assert remote.previews() == (shown,)
    assert remote.expose("one", 8000, 60.0) == replace(shown, left=60.0)
    remote.unexpose("one", 8000)
    assert remote.previews() == ()


# Streams ----------------------------------------------------------------------------------------------


def test_large_output_comes_whole_on_both_streams(remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    told: list[int] = []
    result = remote.exec("one", Command(argv=("shout",)), Output(stderr=lambda data: told.append(len(data))))
    assert (len(result.stdout_bytes), len(result.stderr_bytes), sum(told)) == (500_000, 500_000, 500_000)
    assert not result.truncated


def test_commands_one_after_the_other_share_a_connection(estate: MemoryFleet) -> None:
    connections: list[socket.socket] = []

    class CountedEndpoint(UnixEndpoint):
        def connect(self) -> socket.socket:
            connections.append(super().connect())
            return connections[-1]

    with short_folder() as folder:
        service = ApiServer(estate.fleet, folder)
        try:
            with RemoteRuntime(CountedEndpoint(service.path)) as remote:
                remote.create(spec())
                remote.start("one")
                for text in (b"", b"one", b"two"):
                    assert remote.exec("one", Command(argv=("cat",), input=text)).stdout_bytes == text
                with pytest.raises(SandboxNotFoundError):
                    remote.exec("two", Command(argv=("cat",)))
                assert len(connections) == 1
        finally:
            service.close()


def test_a_command_ends_with_a_caller_that_fails_while_it_takes_output(
    estate: MemoryFleet, remote: RemoteRuntime
) -> None:
    remote.create(spec())
    remote.start("one")

    def fail(_: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        remote.exec("one", Command(argv=("talk",)), Output(stdout=fail))
    (process,) = estate.fleet._members["one"].running
    assert process.wait(30).exit_code == 143
    assert remote.exec("one", Command(argv=("cat",), input=b"next")).stdout_bytes == b"next"


def test_input_of_any_length_comes_whole(remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    for length in (MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1, 20 * MAX_PIECE_BYTES):
        given = b"\xff" * length
        assert remote.exec("one", Command(argv=("cat",), input=given)).stdout_bytes == given


def test_input_is_taken_piece_by_piece(remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    process = remote.spawn("one", Command(argv=("cat",)))
    for _ in range(10):
        process.write(b"z" * 100_000)
    process.close_input()
    assert process.wait(30).stdout_bytes == b"z" * 1_000_000


def test_input_that_fails_is_what_there_was(remote: RemoteRuntime) -> None:
    class Broken(io.RawIOBase):
        def __init__(self) -> None:
            self.left = [b"one", b"two"]

        def readable(self) -> bool:
            return True

        def read(self, _: int = -1) -> bytes:
            if not self.left:
                raise OSError("broken")
            return self.left.pop(0)

    remote.create(spec())
    remote.start("one")
    given: io.RawIOBase = Broken()
    assert remote.exec("one", Command(argv=("cat",), input=given)).stdout_bytes == b"onetwo"  # type: ignore[arg-type]


def test_a_large_archive_goes_and_comes(remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    data = os.urandom(1_000_000)
    remote.put("one", "/workspace", archive(big=data))
    with remote.get("one", "/workspace/big") as file, tarfile.open(fileobj=file) as tar:
        found = tar.extractfile("big")
        assert found is not None
        assert found.read() == data


def test_an_archive_that_arrives_does_not_fill_the_disk(
    estate: MemoryFleet, remote: RemoteRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with holes takes nothing in a sandbox, and all of its size here."""
    remote.create(spec())
    remote.start("one")
    monkeypatch.setattr(disk_space, "_MIN_FREE_BYTES", 1 << 80)
    monkeypatch.setattr(disk_space, "_MIN_FREE_DIVISOR", 1)
    with pytest.raises(SandboxStateError, match="more disk space"), remote.get("one", "/workspace"):
        pass
    monkeypatch.undo()
    with remote.get("one", "/workspace"):
        pass


def test_an_archive_that_cannot_be_read_lays_nothing_down(remote: RemoteRuntime, estate: MemoryFleet) -> None:
    """Not even where it breaks off at the end of an entry."""

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= 1536:
                raise OSError("broken")
            return super().read(1536)

    remote.create(spec())
    remote.start("one")
    with pytest.raises(OSError, match="broken"):
        remote.put("one", "/workspace", Breaking(archive(a=b"x" * 1000, b=b"y").getvalue()))
    with pytest.raises(ArchiveError):
        remote.put("one", "/workspace", io.BytesIO(archive(a=b"x").getvalue()[:700]))
    assert list(estate.runtime.files("one").below("/workspace")) == []


def test_a_terminal_is_resized_and_ends_with_its_client(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    process = remote.spawn("one", Command(argv=("sleep", "infinity"), terminal=Terminal()))
    process.resize(Terminal(columns=100, rows=30))
    with estate.fleet._changed:
        (there,) = estate.fleet._members["one"].running
    process.leave()
    assert there.wait(30).exit_code == 143


# Ends -------------------------------------------------------------------------------------------------


def test_a_client_that_goes_ends_what_it_waits_for_and_not_what_it_spawned(estate: MemoryFleet) -> None:
    with ExitStack() as parts:
        mine = parts.enter_context(served(estate.fleet))
        mine.create(spec())
        mine.start("one")
        mine.spawn("one", FOREVER)
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                mine.exec("one", FOREVER)
            except FleetUnavailableError as error:
                failures.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        members = estate.fleet._members
        while len(members["one"].running) < 2:
            time.sleep(0.01)
        spawned, waited = members["one"].running
        mine.close()
        waiting.join()
        assert len(failures) == 1
        assert waited.wait(30).exit_code == 143
        with pytest.raises(TimeoutError):
            spawned.wait(0.05)


def test_what_is_under_way_settles_when_the_fleet_goes(estate: MemoryFleet) -> None:
    with short_folder() as folder:
        service = ApiServer(estate.fleet, folder)
        remote = RemoteRuntime(service.path)
        remote.create(spec())
        remote.start("one")
        process = remote.spawn("one", FOREVER)
        with remote.events() as events:
            service.close()
            assert list(events) == []
        with pytest.raises(FleetUnavailableError):
            process.wait(30)
        with pytest.raises(FleetUnavailableError, match="is not running"):
            remote.list()


def test_a_sandbox_that_dies_is_told_over_the_socket(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.start("one")
    process = remote.spawn("one", FOREVER)
    estate.fleet.remove("one")
    with pytest.raises(SandboxDiedError):
        process.wait(30)


def test_one_can_be_discarded_over_the_socket(estate: MemoryFleet, remote: RemoteRuntime) -> None:
    remote.create(spec())
    remote.discard("one")
    assert remote.list() == ()
    estate.fleet.close()
    assert estate.runtime.list() == ()


def test_its_end_can_be_asked_for(estate: MemoryFleet) -> None:
    asked = threading.Event()
    with short_folder() as folder:
        service = ApiServer(estate.fleet, folder, asked.set)
        with RemoteRuntime(service.path) as remote:
            remote.end()
        assert asked.wait(10)
        service.close()


def test_one_that_was_let_go_of_takes_no_more_calls(remote: RemoteRuntime) -> None:
    remote.close()
    with pytest.raises(FleetUnavailableError, match="let go of"):
        remote.list()


def test_where_nobody_listens_there_is_no_fleet(tmp_path: Path) -> None:
    assert connect_if_served(tmp_path / "sandboxes.sock") is None
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "sandboxes.sock"))
        assert connect_if_served(folder / "sandboxes.sock") is None
    with pytest.raises(FleetUnavailableError, match="too long"):
        RemoteRuntime(tmp_path / ("x" * 100))


def test_a_wrong_value_is_refused_there(remote: RemoteRuntime) -> None:
    with pytest.raises(SpecError):
        remote.open_ports("one", (0,))


def test_time_limits_are_changed() -> None:
    estate = MemoryFleet()
    with served(estate.fleet) as remote:
        remote.create(spec())
        sandbox = Sandbox(remote, "one")
        sandbox.set_timeout(60)
        sandbox.set_idle_timeout(5)
        assert estate.fleet.status("one").terms == SandboxLifetime(timeout=60, idle_timeout=5)
        sandbox.set_timeout(None)
        assert remote.status("one").left is None
    estate.fleet.close()
