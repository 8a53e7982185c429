"""The order of the steps that each runtime takes, whatever its sandboxes are made of."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from egress.runtime.door.controller import DoorController
from egress.runtime.errors import (
    GatewayRefusedError,
    PortClosedError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.fake import FakeProxyClient
from egress.runtime.lifecycle import DoorLifecycle, Status, unfit
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.protocol import Output, Provisions, RuntimeProcess
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, SandboxListener, SandboxListenerKind
from egress.runtime.spec import NO_VALUES, Command, ExecResult, Spec


class Proxy(FakeProxyClient):
    """Says what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def admit(
        self,
        name: str,
        profile: str | None = None,
        seed: str = "",
        *,
        parameters: Mapping[str, str] = NO_VALUES,
    ) -> Admission:
        self.said.append(f"admit {name}")
        return super().admit(name, profile, seed, parameters=parameters)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        self.said.append(f"hand over {name} {[each.port for each in listeners]}")

    def dismiss(self, name: str) -> None:
        self.said.append(f"dismiss {name}")
        super().dismiss(name)


@dataclass
class Door:
    """A keeper that opens nothing, and dials what it is told."""

    listeners: tuple[SandboxListener, ...] = ()
    dialled: socket.socket | None = None

    def open(self, wanted: tuple[tuple[SandboxListenerKind, int], ...]) -> tuple[SandboxListener, ...]:
        with socket.socket() as sock:
            self.listeners = tuple(SandboxListener(kind, port, sock) for kind, port in wanted)
        return self.listeners

    def dial(self, host: str, port: int) -> socket.socket | None:
        assert (host, port) == ("192.0.2.1", 8080)
        return self.dialled


@dataclass
class One:
    spec: Spec
    admission: Admission
    mounted_files: MountedFiles
    provisions: Provisions = field(default_factory=lambda: Provisions(folder="/etc/egress"))
    door: Door = field(default_factory=Door)

    @property
    def door_controller(self) -> DoorController:
        return cast("DoorController", self.door)


class Over:
    """A command that is over."""

    def wait(self, timeout: float | None = None) -> ExecResult:
        assert timeout is None
        return ExecResult(exit_code=7)


class Runtime(DoorLifecycle[One, RuntimeProcess]):
    """Sandboxes of nothing."""

    def __init__(self, proxy: Proxy, folder: Path) -> None:
        super().__init__(
            proxy, lambda admission, _: Provisions(folder="/etc/egress", files=_files(admission))
        )
        self.said = proxy.said
        self.fails: Exception | None = None
        self.begun: list[bool] = []
        self._folder = folder
        self._parts.callback(self.said.append, "parts closed")

    def _maker(self, spec: Spec) -> Callable[[], One]:
        if spec.image == "none":
            raise SandboxStateError("there is no such image", "name another")
        return lambda: self._admitted(spec, lambda admission: self._made(spec, admission))

    def _made(self, spec: Spec, admission: Admission) -> One:
        self.said.append(f"make {spec.name}")
        if self.fails is not None:
            raise self.fails
        return One(spec, admission, MountedFiles(self._folder / spec.name, {}))

    def _end(self, sandbox: One) -> None:
        self.said.append(f"end {sandbox.spec.name}")
        if self.fails is not None:
            raise self.fails

    def _status(self, sandbox: One) -> Status:
        return Status("stopped", None, 3 if sandbox.spec.image == "any" else None)

    def _running(self, name: str) -> One:
        return self._register.get(name)

    def _address(self, sandbox: One) -> str:
        assert sandbox.spec.name == "one"
        return "192.0.2.1"

    def _begin(self, sandbox: One, command: Command, output: Output, *, is_open: bool) -> RuntimeProcess:
        assert (sandbox.spec.name, output.stdout) == ("one", None)
        assert command.argv
        self.begun.append(is_open)
        return cast("RuntimeProcess", Over())

    def _provision(self, sandbox: One, admission: Admission) -> Provisions:
        assert sandbox.spec.name == admission.name
        return self._provisioner(admission, ProxyAddress("192.0.2.2"))

    def one(self) -> One:
        return self._register.get("one")

    def returned(self) -> None:
        self._register.readmit_all()


def _files(admission: Admission) -> dict[str, bytes]:
    return {"/etc/egress/ca.pem": admission.authority.encode()}


def spec(name: str = "one", **values: str) -> Spec:
    return Spec(name=name, image=values.pop("image", "any"), labels=values)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
def runtime(proxy: Proxy, tmp_path: Path) -> Runtime:
    return Runtime(proxy, tmp_path)


def test_it_is_admitted_before_it_is_made_and_dismissed_before_it_ends(runtime: Runtime) -> None:
    info = runtime.create(spec(team="a"))
    assert (info.name, info.image, info.state, info.exit_code) == ("one", "any", "stopped", 3)
    assert [each.name for each in runtime.list({"team": "a"})] == ["one"]
    assert runtime.list({"team": "b"}) == ()
    runtime.remove("one")
    runtime.remove("one")
    assert runtime.said == ["admit one", "make one", "dismiss one", "end one"]
    with pytest.raises(SandboxNotFoundError):
        runtime.info("one")


def test_one_that_cannot_be_made_is_dismissed_and_its_name_is_free(runtime: Runtime) -> None:
    runtime.fails = SandboxStateError("no room", "make some")
    with pytest.raises(SandboxStateError, match="no room"):
        runtime.create(spec())
    assert runtime.said == ["admit one", "make one", "dismiss one"]
    runtime.fails = None
    runtime.create(spec())
    with pytest.raises(SandboxExistsError):
        runtime.create(spec())


def test_what_can_be_seen_before_asks_no_proxy(runtime: Runtime) -> None:
    with pytest.raises(SandboxStateError, match="no such image"):
        runtime.create(spec(image="none"))
    assert runtime.said == []


def test_one_that_the_proxy_refuses_is_not_made(proxy: Proxy, runtime: Runtime) -> None:
    def refuse(
        name: str, profile: str | None = None, seed: str = "", *, parameters: Mapping[str, str] = NO_VALUES
    ) -> Admission:
        raise GatewayRefusedError(f"{name} {profile} {seed} {parameters}", "")

    proxy.admit = refuse  # type: ignore[method-assign]
    with pytest.raises(GatewayRefusedError):
        runtime.create(spec())
    assert runtime.said == []


def test_its_life_is_told_to_all_that_listen(runtime: Runtime) -> None:
    with runtime.events() as ours, runtime.events() as others:
        runtime.create(spec())
        runtime.remove("one")
        runtime.close()
        for events in (ours, others):
            assert [(each.kind, each.sandbox) for each in events] == [("created", "one"), ("removed", "one")]


def test_all_are_removed_and_then_the_parts_closed(runtime: Runtime) -> None:
    for name in ("one", "two", "three"):
        runtime.create(spec(name))
    runtime.said.clear()
    runtime.close()
    assert runtime.said[-1] == "parts closed"
    assert set(runtime.said[:-1]) == {
        f"{act} {name}" for act in ("dismiss", "end") for name in ("one", "two", "three")
    }


def test_the_parts_are_closed_where_one_cannot_be_removed(runtime: Runtime) -> None:
    runtime.create(spec())
    runtime.fails = SandboxStateError("stuck", "")
    with runtime.events() as events:
        with pytest.raises(SandboxStateError, match="stuck"):
            runtime.close()
        assert runtime.said[-1] == "parts closed"
        assert list(events) == []


def test_ports_are_opened_and_handed_over(runtime: Runtime) -> None:
    runtime.create(spec())
    runtime.open_ports("one", (8443,))
    assert runtime.said[-1] == "hand over one [3128, 80, 443, 8443, 53, 53]"


def test_a_proxy_that_has_returned_gets_the_same_listeners_after_the_new_files(
    proxy: Proxy, runtime: Runtime
) -> None:
    runtime.create(spec())
    runtime.open_ports("one", ())
    proxy.admitted.clear()
    runtime.said.clear()
    runtime.returned()
    assert runtime.said == ["admit one", "hand over one [3128, 80, 443, 53, 53]"]
    assert runtime.one().provisions.files.keys() == {"/etc/egress/ca.pem"}


def test_commands_are_begun_with_and_without_input(runtime: Runtime) -> None:
    runtime.create(spec())
    assert runtime.exec("one", Command(argv=("true",))).exit_code == 7
    runtime.spawn("one", Command(argv=("true",)))
    runtime.spawn("one", Command(argv=("true",), input=b"x"))
    assert runtime.begun == [False, True, False]


def test_a_port_is_dialled_and_the_connection_waits_as_long_as_it_takes(runtime: Runtime) -> None:
    runtime.create(spec())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(1)
        runtime.one().door.dialled = cast("socket.socket", _Dialled(ours))
        assert runtime.dial("one", 8080).gettimeout() is None


def test_a_connection_that_met_itself_is_closed(runtime: Runtime) -> None:
    runtime.create(spec())
    dialled = _Dialled(None)
    runtime.one().door.dialled = cast("socket.socket", dialled)
    with pytest.raises(PortClosedError, match="nothing listens on port 8080"):
        runtime.dial("one", 8080)
    assert dialled.is_closed.is_set()


class _Dialled:
    def __init__(self, sock: socket.socket | None) -> None:
        self._sock = sock
        self.is_closed = threading.Event()

    def getsockname(self) -> tuple[str, int]:
        return ("192.0.2.1", 8080)

    def getpeername(self) -> tuple[str, int]:
        return ("192.0.2.1", 8080 if self._sock is None else 8081)

    def settimeout(self, timeout: float | None) -> None:
        assert self._sock is not None
        self._sock.settimeout(timeout)

    def gettimeout(self) -> float | None:
        assert self._sock is not None
        return self._sock.gettimeout()

    def close(self) -> None:
        self.is_closed.set()


@pytest.mark.parametrize(
    ("state", "error", "hint"),
    [
        ("stopped", SandboxDiedError, "start it again, or remove it"),
        ("paused", SandboxStateError, "resume it"),
        ("created", SandboxStateError, "start it"),
    ],
)
def test_why_it_cannot_do_this_now_is_said(state: str, error: type[Exception], hint: str) -> None:
    found = unfit("one", state)
    assert isinstance(found, error)
    assert found.hint == hint
    assert "one" in found.message
