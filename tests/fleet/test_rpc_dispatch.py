"""What a fleet says to those who do not speak as they should: nothing, or what is wrong; and it goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egress.fleet import RemoteRuntime
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_frames import RPC_VERSION, FrameKind, Head, RpcFrame, encode, make_head
from egress.fleet.rpc_server import RpcServer
from egress.runtime.errors import SandboxNotFoundError
from tests.fleet.memory_fleet import MemoryFleet, short_folder, spec
from tests.tiers import examples


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    estate = MemoryFleet()
    estate.fleet.create(spec())
    estate.fleet.start("one")
    with short_folder() as folder:
        service = RpcServer(estate.fleet, folder)
        yield service.path
        assert [each.name for each in RemoteRuntime(service.path).list()] == ["one"]
        service.close()
    estate.fleet.close()


def said(place: Path, *frames: RpcFrame) -> list[Head]:
    """Say something, and hear what is answered until the end."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(place))
    with RpcChannel(sock) as link:
        link.send(*frames)
        sock.shutdown(socket.SHUT_WR)
        found = []
        while (frame := link.receive()) is not None:
            if frame.kind is FrameKind.HEAD:
                found.append(frame.head)
        return found


def code(place: Path, *frames: RpcFrame) -> object:
    (answer,) = said(place, *frames)
    error = answer["error"]
    assert isinstance(error, dict)
    return error["code"]


def call(name: str, /, **values: object) -> RpcFrame:
    return make_head(version=RPC_VERSION, call=name, **{"with": values})


def test_a_right_call_is_answered_with_the_version(place: Path) -> None:
    (answer,) = said(place, call("list", labels={}))
    assert answer["version"] == RPC_VERSION
    assert json.dumps(answer["done"]).count('"name"') == 1


def test_another_version_is_said_and_not_guessed_at(place: Path) -> None:
    (answer,) = said(place, make_head(version=RPC_VERSION + 1, call="list", **{"with": {}}))
    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] == "fleet.protocol"
    assert str(RPC_VERSION + 1) in str(error["message"])


@pytest.mark.parametrize(
    "frame",
    [
        call("no-such-call"),
        call("info"),
        call("info", name=1),
        call("create", spec={}, terms={}),
        call("command", name="one", foreground=True, input="perhaps", command={}),
        make_head(call="list"),
        make_head(version=RPC_VERSION, call="list", more=1, **{"with": {}}),
        RpcFrame(FrameKind.OUTPUT, b"x"),
        RpcFrame(FrameKind.HEAD, b"[]"),
    ],
    ids=map(str, range(9)),
)
def test_what_is_no_call_is_refused(place: Path, frame: RpcFrame) -> None:
    assert code(place, frame) == "fleet.protocol"


def test_errors_go_over_by_their_codes(place: Path) -> None:
    assert code(place, call("info", name="nobody")) == SandboxNotFoundError.code
    assert code(place, call("start", name="nobody")) == SandboxNotFoundError.code


def test_an_archive_that_breaks_off_is_not_laid_down(place: Path) -> None:
    assert (
        said(place, call("put", name="one", path="/workspace"), RpcFrame(FrameKind.INPUT, b"x" * 100)) == []
    )


def test_an_archive_with_something_else_in_it_is_refused(place: Path) -> None:
    put = call("put", name="one", path="/workspace")
    assert code(place, put, RpcFrame(FrameKind.OUTPUT, b"x")) == "fleet.protocol"


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200))
def test_any_bytes_at_all_end_the_conversation_and_not_the_fleet(place: Path, data: bytes) -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(place))
    with sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except ConnectionError:
            pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just("one"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CALLS = [
    "info",
    "start",
    "create",
    "list",
    "open_ports",
    "expose",
    "command",
    "put",
    "get",
    "dial",
    "prepare",
]
NAMES = [
    "name",
    "spec",
    "terms",
    "labels",
    "ports",
    "port",
    "command",
    "input",
    "foreground",
    "path",
    "count",
]


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CALLS), st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5))
def test_any_values_are_answered_and_never_a_fault(place: Path, name: str, values: dict[str, object]) -> None:
    for answer in said(place, call(name, **values)):
        error = answer.get("error")
        assert not (isinstance(error, dict) and error["code"] == "fleet.fault"), answer


def test_a_frame_that_is_too_long_ends_the_conversation(place: Path) -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(place))
    with RpcChannel(sock) as link:
        sock.sendall(b"\x01\xff\xff\xff\xff")
        frame = link.receive()
        assert frame is not None
        assert b"fleet.protocol" in encode(frame)
        assert link.receive() is None
