"""Commands over a WebSocket: start, output, input, end, and clients that say something else."""

from __future__ import annotations

import json
import threading

import pytest
from wsproto.events import Ping

from egress.api.websocket_client import WebSocketClient
from egress.runtime.fake.process import FakeProcess
from tests.api_server.lab import ApiLab, api_lab
from tests.api_server.test_exec_over_http import started

EXEC = "/v1/sandboxes/one/exec"


def begun(lab: ApiLab, *argv: str, **more: object) -> WebSocketClient:
    lab.running()
    stream = lab.stream(EXEC)
    assert stream.shake_hands() is None
    say(stream, {"type": "start", "argv": argv, **more})
    return stream


def say(stream: WebSocketClient, message: object) -> None:
    stream.send_text(json.dumps(message).encode())


def heard(stream: WebSocketClient) -> dict[str, object]:
    said = stream.receive()
    assert isinstance(said, str)
    found: dict[str, object] = json.loads(said)
    return found


def test_the_start_is_told_first_and_the_result_last(lab: ApiLab) -> None:
    stream = begun(lab, "echo", "hello")
    assert heard(stream) == {"type": "started"}
    assert stream.receive() == b"\x01hello\n"
    assert heard(stream)["exit_code"] == 0
    assert stream.receive() is None


def test_each_message_of_input_is_acknowledged(lab: ApiLab) -> None:
    stream = begun(lab, "cat", stdin=True)
    heard(stream)
    for piece in (b"one ", b"two"):
        stream.send_bytes(b"\x00" + piece)
        assert heard(stream) == {"type": "taken"}
    say(stream, {"type": "close_input"})
    assert stream.receive() == b"\x01one two"
    assert heard(stream)["exit_code"] == 0


def test_a_command_is_ended_and_resized_while_it_runs(lab: ApiLab) -> None:
    stream = begun(lab, "sleep", "infinity", terminal={"columns": 80, "rows": 24})
    heard(stream)
    say(stream, {"type": "resize", "columns": 100, "rows": 30})
    say(stream, {"type": "resize", "columns": 0, "rows": 30})
    say(stream, {"type": "kill", "grace": 0})
    assert heard(stream)["type"] == "result"


@pytest.mark.parametrize(
    "wrong",
    [
        b"{",
        b"[]",
        b'{"type": "start"}',
        b'{"type": "end"}',
        b'{"type": "kill", "grace": "x"}',
        b'{"kill": 1}',
    ],
)
def test_a_message_of_another_form_ends_the_command(lab: ApiLab, wrong: bytes) -> None:
    stream = begun(lab, "sleep", "infinity")
    heard(stream)
    (process,) = started(lab)
    stream.send_text(wrong)
    problem = heard(stream)
    assert problem["type"] == "problem"
    assert process.wait(30).exit_code != 0


def test_a_binary_message_that_is_no_input_ends_the_command(lab: ApiLab) -> None:
    stream = begun(lab, "sleep", "infinity", stdin=True)
    heard(stream)
    stream.send_bytes(b"\x01output of mine")
    assert heard(stream)["type"] == "problem"


def test_a_first_message_of_another_form_starts_nothing(lab: ApiLab) -> None:
    lab.running()
    for wrong in (b"{}", b'{"type": "start", "argv": "sh"}', b'{"type": "start", "argv": ["x"], "shell": 1}'):
        stream = lab.stream(EXEC)
        stream.shake_hands()
        stream.send_text(wrong)
        assert heard(stream)["type"] == "problem"
        stream.close()
    with lab.estate.fleet._changed:
        assert lab.estate.fleet._members["one"].running == []


def test_a_client_that_leaves_ends_its_command_and_a_detached_one_goes_on(lab: ApiLab) -> None:
    stream = begun(lab, "sleep", "infinity")
    heard(stream)
    (process,) = started(lab)
    stream.close()
    assert process.wait(30).exit_code != 0
    detached = lab.stream(EXEC)
    detached.shake_hands()
    say(detached, {"type": "start", "argv": ["sleep", "infinity"], "detached": True})
    heard(detached)
    detached.close()
    (left,) = [each for each in started(lab) if each is not process]
    with pytest.raises(TimeoutError):
        left.wait(0.2)


def test_a_client_that_leaves_behind_input_that_nobody_takes_ends_its_command(
    lab: ApiLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(FakeProcess, "write", lambda *_: release.wait())
    try:
        stream = begun(lab, "sleep", "infinity", stdin=True)
        heard(stream)
        (process,) = started(lab)
        for _ in range(4):
            stream.send_bytes(b"\x00x")
        stream.close()
        assert process.wait(10).exit_code != 0
    finally:
        release.set()


def test_input_far_ahead_of_the_command_is_refused(lab: ApiLab, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(FakeProcess, "write", lambda *_: release.wait())
    try:
        stream = begun(lab, "sleep", "infinity", stdin=True)
        heard(stream)
        for _ in range(30):
            stream.send_bytes(b"\x00x")
        assert heard(stream)["type"] == "problem"
    finally:
        release.set()


def test_requests_to_end_a_command_are_limited_too(lab: ApiLab, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    kill = FakeProcess.kill
    monkeypatch.setattr(FakeProcess, "kill", lambda self, grace=2.0: release.wait(10) and kill(self, grace))
    try:
        stream = begun(lab, "sleep", "infinity")
        heard(stream)
        for _ in range(100):
            say(stream, {"type": "kill"})
        assert heard(stream)["type"] == "problem"
    finally:
        release.set()


def test_commands_that_run_leave_a_thread_to_those_who_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egress.api_server.call.MAX_THREADS", 1)
    with api_lab() as lab:
        stream = begun(lab, "sleep", "infinity")
        heard(stream)
        assert lab.ask("GET", "/v1/sandboxes").status == 200
        say(stream, {"type": "kill", "grace": 0})
        assert heard(stream)["type"] == "result"


def test_pings_of_a_client_that_reads_nothing_are_not_kept(
    lab: ApiLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = begun(lab, "sleep", "infinity")
    heard(stream)
    came = 0
    feed = stream._feed

    def count(data: bytes) -> None:
        nonlocal came
        came += len(data)
        feed(data)

    monkeypatch.setattr(stream, "_feed", count)
    pings = stream._connection.send(Ping(payload=b"x" * 120)) * 1000
    # More than the buffers of the kernel and a limit of the server hold.
    for _ in range(20):
        stream._sock.sendall(pings)
    say(stream, {"type": "kill", "grace": 0})
    assert heard(stream)["type"] == "result"
    assert came < len(pings) * 10


def test_an_unknown_sandbox_is_a_problem(lab: ApiLab) -> None:
    stream = lab.stream(EXEC)
    stream.shake_hands()
    say(stream, {"type": "start", "argv": ["true"]})
    problem = heard(stream)["problem"]
    assert isinstance(problem, dict)
    assert problem["type"] == "sandbox.not_found"
