"""A command behind the API settles, whatever becomes of the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from wsproto.events import BytesMessage, TextMessage

from egress.api.schema import StartMessage
from egress.api.websocket_client import WebSocketClient
from egress.fleet.errors import FleetProtocolError, FleetUnavailableError
from egress.fleet.remote_process import RemoteProcess
from egress.runtime.errors import PathNotFoundError, SandboxTimeoutError
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import Command
from tests.api.websocket_peer import Peer, opened

STARTED = {"type": "started"}
ENDED = {"type": "result", "exit_code": 0, "duration": 0.5, "timed_out": False}


def say(peer: Peer, *messages: object) -> None:
    for each in messages:
        peer.send(BytesMessage(each) if isinstance(each, bytes) else TextMessage(json.dumps(each)))


def make(client: WebSocketClient, output: Output = NO_OUTPUT) -> RemoteProcess:
    return RemoteProcess(client, StartMessage(argv=("x",)), Command(argv=("x",)), output, client.close)


@contextmanager
def begun() -> Iterator[tuple[RemoteProcess, Peer]]:
    with opened() as (client, peer):
        say(peer, STARTED)
        yield make(client), peer


def test_a_command_settles_with_its_output_and_its_result() -> None:
    with begun() as (process, peer):
        say(peer, b"\x01o", b"\x02e", ENDED)
        result = process.wait(20)
    assert (result.stdout_bytes, result.stderr_bytes, result.duration) == (b"o", b"e", 0.5)


def test_a_command_that_does_not_start_raises_the_error_of_the_server() -> None:
    with opened() as (client, peer):
        say(peer, {"type": "problem", "problem": {"type": "path.not_found", "message": "m", "hint": "h"}})
        with pytest.raises(PathNotFoundError, match="m"):
            make(client)


def hang_up(peer: Peer) -> None:
    peer.sock.close()


def say_the_end(peer: Peer) -> None:
    say(peer, ENDED)


@pytest.mark.parametrize("leave", [hang_up, say_the_end])
def test_a_command_does_not_start_without_the_word_of_the_server(leave: Callable[[Peer], None]) -> None:
    with opened() as (client, peer):
        leave(peer)
        with pytest.raises((FleetUnavailableError, FleetProtocolError)):
            make(client)


def test_threads_that_wait_or_write_are_released_when_the_server_goes() -> None:
    with begun() as (process, peer):
        writer = threading.Thread(target=process.write, args=(b"x" * 1_000_000,))
        writer.start()
        assert peer.sock.recv(100)
        peer.sock.close()
        with pytest.raises(FleetUnavailableError):
            process.wait(20)
        writer.join(20)
        assert not writer.is_alive()
        process.write(b"more")
        process.kill()
        process.close_input()


WRONG = [{"type": "result", "exit_code": "zero"}, {"type": "x"}, b"\x07data", STARTED]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_message_of_another_form_is_an_error_for_threads_that_wait(wrong: object) -> None:
    with begun() as (process, peer):
        say(peer, wrong)
        with pytest.raises(FleetProtocolError):
            process.wait(20)


def test_a_wait_has_a_timeout() -> None:
    with begun() as (process, _), pytest.raises(SandboxTimeoutError):
        process.wait(0.01)
