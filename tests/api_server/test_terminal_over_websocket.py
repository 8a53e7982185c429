"""The terminal of a process over a WebSocket: messages, mistakes, and clients that vanish."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from egress.api.endpoint import UnixEndpoint
from egress.api.websocket_client import WebSocketClient
from egress.api_server.input_queue import MAX_WAITING_INPUT
from tests.api_server.file_lab import FileLab

CAT = "stty raw -echo; echo ready; cat"


class Viewer:
    """A WebSocket at a terminal, and what it was told."""

    def __init__(self, lab: FileLab, process: str, **query: str) -> None:
        target = lab.target(f"processes/{process}/terminal", **query)
        self.stream = WebSocketClient(lab.connect(), UnixEndpoint(lab.server.path), target)
        self.refusal = self.stream.shake_hands()

    def say(self, **message: object) -> None:
        self.stream.send_text(json.dumps(message).encode())

    def type(self, data: bytes) -> None:
        self.stream.send_bytes(b"\0" + data)

    def hear(self) -> tuple[str, Any]:
        said = self.stream.receive()
        if isinstance(said, bytes):
            assert said[:1] == b"\1"
            return "output", said[1:]
        if said is None:
            return "closed", None
        message = json.loads(said)
        return message.pop("type"), message

    def until(self, kind: str, text: bytes = b"") -> Any:  # noqa: ANN401 - JSON
        seen = b""
        while True:
            name, what = self.hear()
            assert name != "closed", (kind, seen)
            if name == "output":
                seen += what
            if name == kind and (kind != "output" or text in seen):
                return seen if kind == "output" else what


@pytest.fixture
def process(files: FileLab) -> str:
    return begun(files, CAT)


def begun(lab: FileLab, line: str) -> str:
    answer = lab.ask("POST", "processes", {"command": line, "terminal": {"columns": 80, "rows": 24}})
    assert answer.status == 201, answer.body
    found: str = answer.body["id"]
    waited = lab.ask("POST", f"processes/{found}/wait", {"log": "ready", "timeout": 30})
    assert waited.status == 200, waited.body
    return found


@pytest.fixture
def viewer(files: FileLab, process: str) -> Iterator[Viewer]:
    made = Viewer(files, process)
    yield made
    made.stream.close()


def test_a_client_sees_types_and_resizes(files: FileLab, process: str, viewer: Viewer) -> None:
    assert viewer.until("attached")["process"]["id"] == process
    viewer.until("output", b"ready")
    viewer.type(b"typed")
    assert b"typed" in viewer.until("output", b"typed")
    viewer.say(type="resize", columns=70, rows=20)
    deadline = time.monotonic() + 30
    while files.ask("GET", f"processes/{process}").body["columns"] != 70:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert files.ask("POST", f"processes/{process}/signal", {"grace": 0}).status == 204
    assert viewer.until("ended")["process"]["state"] == "ended"
    assert viewer.hear() == ("closed", None)


def test_input_over_http_reaches_the_terminal(files: FileLab, process: str, viewer: Viewer) -> None:
    assert files.ask("POST", f"processes/{process}/stdin", b"by a call").status == 204
    viewer.until("output", b"by a call")


def test_each_input_is_acknowledged(viewer: Viewer) -> None:
    for _ in range(2 * MAX_WAITING_INPUT):
        viewer.type(b"x")
        viewer.until("taken")


@pytest.mark.parametrize(
    "wrong",
    [b'{"type": "resize"}', b'{"type": "resize", "columns": 0, "rows": 1}', b"nothing", b'{"type": "start"}'],
)
def test_a_message_of_another_form_is_a_problem(viewer: Viewer, wrong: bytes) -> None:
    viewer.stream.send_text(wrong)
    assert viewer.until("problem")["problem"]["type"] in ("request.invalid", "spec.invalid")


def test_a_message_for_no_channel_is_a_problem(viewer: Viewer) -> None:
    viewer.stream.send_bytes(b"\x07x")
    assert viewer.until("problem")["problem"]["type"] == "request.invalid"


def test_a_program_that_reads_nothing_does_not_hide_the_end_of_its_clients(files: FileLab) -> None:
    process = begun(files, "stty raw -echo; echo ready; sleep 60")
    flooding = Viewer(files, process)
    for _ in range(2 * MAX_WAITING_INPUT):
        flooding.type(b"x" * 10_000)
    assert flooding.until("problem")["problem"]["type"] == "request.invalid"
    flooding.stream.close()
    other = Viewer(files, process, columns="70", rows="20")
    other.until("output", b"ready")
    assert files.ask("POST", f"processes/{process}/signal", {"grace": 0}).status == 204
    other.until("ended")
    other.stream.close()


def test_what_has_no_terminal_is_refused_before_the_handshake(files: FileLab, process: str) -> None:
    plain = files.ask("POST", "processes", {"argv": ["sleep", "60"]}).body["id"]
    for target, query, status in (
        (plain, {}, 409),
        ("0" * 16, {}, 404),
        (process, {"columns": "0"}, 400),
        (process, {"columns": "x"}, 400),
        (process, {"size": "80"}, 400),
    ):
        refused = Viewer(files, target, **query)
        assert refused.refusal is not None
        assert refused.refusal[0] == status, refused.refusal
        refused.stream.close()
    wrong = {"argv": ["x"], "terminal": {"columns": 0, "rows": 1}}
    assert files.ask("POST", "processes", wrong).status == 422
    assert files.ask("POST", "processes", {"argv": ["x"], "terminal": {}, "timeout": 5}).status == 422


def test_a_client_that_vanishes_leaves_the_program(files: FileLab, process: str) -> None:
    for _ in range(12):
        gone = Viewer(files, process)
        gone.until("attached")
        gone.stream.close()
    viewer = Viewer(files, process)
    viewer.until("output", b"ready")
    viewer.type(b"still")
    viewer.until("output", b"still")
    assert files.ask("GET", f"processes/{process}").body["state"] == "running"
    viewer.stream.close()
