"""A command in another process settles, whatever becomes of the other process."""

from __future__ import annotations

import socket
import threading

import pytest

from egress.fleet.errors import FleetProtocolError, FleetUnavailableError
from egress.fleet.remote_process import RemoteProcess
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_frames import RPC_VERSION, FrameKind, RpcFrame, make_head
from egress.runtime.errors import PathNotFoundError, SandboxTimeoutError
from egress.runtime.protocol import Output
from egress.runtime.spec import Command

BEGUN = make_head(version=RPC_VERSION, done={})
ENDED = make_head(result={"exit_code": 0, "duration": 0.5, "timed_out": False})


def pair() -> tuple[RpcChannel, RpcChannel]:
    ours, theirs = socket.socketpair()
    return RpcChannel(ours), RpcChannel(theirs)


def begun(link: RpcChannel, there: RpcChannel, **told: object) -> RemoteProcess:
    there.send(BEGUN)
    return RemoteProcess(link, Command(argv=("x",)), Output(**told), link.close)  # type: ignore[arg-type]


def test_it_settles_with_what_was_told() -> None:
    link, there = pair()
    with there:
        process = begun(link, there)
        there.send(RpcFrame(FrameKind.OUTPUT, b"o"), RpcFrame(FrameKind.ERRORS, b"e"), ENDED)
        result = process.wait(20)
    assert (result.stdout_bytes, result.stderr_bytes, result.duration) == (b"o", b"e", 0.5)


def test_it_does_not_begin_where_the_other_side_says_so() -> None:
    link, there = pair()
    with link, there:
        there.send(
            make_head(version=RPC_VERSION, error={"code": "path.not_found", "message": "m", "hint": "h"})
        )
        with pytest.raises(PathNotFoundError, match="m"):
            RemoteProcess(link, Command(argv=("x",)), Output(), link.close)


def test_it_does_not_begin_where_nobody_answers() -> None:
    link, there = pair()
    there.close()
    with link, pytest.raises(FleetUnavailableError):
        RemoteProcess(link, Command(argv=("x",)), Output(), link.close)


def test_whoever_waits_or_writes_is_released_when_the_other_side_goes() -> None:
    link, there = pair()
    process = begun(link, there)
    writer = threading.Thread(target=process.write, args=(b"x" * 1_000_000,))
    writer.start()
    assert there.receive() is not None
    there.close()
    with pytest.raises(FleetUnavailableError):
        process.wait(20)
    writer.join(20)
    assert not writer.is_alive()
    process.write(b"more")
    process.kill()
    process.close_input()


def test_what_no_fleet_says_is_an_error_for_whoever_waits() -> None:
    link, there = pair()
    with there:
        process = begun(link, there)
        there.send(make_head(result={"exit_code": "zero"}))
        with pytest.raises(FleetProtocolError):
            process.wait(20)


@pytest.mark.parametrize("code", ["exec.timeout", "sandbox.timeout"])
def test_a_timeout_over_there_is_no_lost_connection(code: str) -> None:
    """A timeout is an `OSError`, as a lost connection is."""
    link, there = pair()
    with there:
        process = begun(link, there)
        there.send(make_head(error={"code": code, "message": "m", "hint": "h"}))
        with pytest.raises(SandboxTimeoutError, match="m") as caught:
            process.wait(20)
    assert caught.value.code == code


def test_a_failure_of_whoever_is_told_reaches_whoever_waits() -> None:
    def fail(_: bytes) -> None:
        raise BrokenPipeError("mine")

    link, there = pair()
    with there:
        process = begun(link, there, stdout=fail)
        there.send(RpcFrame(FrameKind.OUTPUT, b"o"))
        with pytest.raises(BrokenPipeError, match="mine"):
            process.wait(20)
