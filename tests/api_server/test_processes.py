"""Processes over the API: any client finds, follows, writes to and ends them by their ids."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.api_server.lab import ApiLab, RawConnection, api_lab, base64_of

PROCESSES = "/v1/sandboxes/one/processes"
FOREVER = ["sleep", "infinity"]


@pytest.fixture
def lab() -> Iterator[ApiLab]:
    with api_lab() as lab:
        lab.running()
        yield lab


def begun(lab: ApiLab, *argv: str, **more: object) -> str:
    answer = lab.ask("POST", PROCESSES, {"argv": argv, **more})
    assert answer.status == 201, answer.body
    found: str = answer.body["id"]
    return found


def events(lab: ApiLab, target: str) -> Iterator[tuple[str, Any]]:
    """The events of an output; the connection ends with the iterator."""
    connection = RawConnection(str(lab.server.path))
    try:
        connection.request("GET", target, headers={"accept": "text/event-stream"})
        response = connection.getresponse()
        name = ""
        while line := response.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])
    finally:
        connection.close()


def finished(lab: ApiLab, process: str) -> Any:  # noqa: ANN401 - JSON
    answer = lab.ask("POST", f"{PROCESSES}/{process}/wait", {"timeout": 30})
    assert answer.status == 200, answer.body
    return answer.body


def test_another_client_finds_what_one_started(lab: ApiLab) -> None:
    process = begun(lab, *FOREVER)
    (found,) = lab.ask("GET", PROCESSES).body["processes"]
    assert found == lab.ask("GET", f"{PROCESSES}/{process}").body
    assert (found["id"], found["argv"], found["state"]) == (process, FOREVER, "running")
    assert lab.ask("GET", f"{PROCESSES}/other").body["type"] == "process.not_found"
    assert lab.ask("GET", "/v1/sandboxes/two/processes").status == 404


def test_output_is_read_from_an_offset(lab: ApiLab) -> None:
    process = begun(lab, "echo", "0123456789", keep=4)
    finished(lab, process)
    answer = lab.ask("GET", f"{PROCESSES}/{process}/output?offset=8")
    assert answer.body == b"89\n"
    offsets = [answer.headers[f"egress-{name}"] for name in ("offset", "first-offset", "next-offset")]
    assert offsets == ["8", "7", "11"]
    assert lab.ask("GET", f"{PROCESSES}/{process}/output?stream=stderr").body == b""
    for wrong in ("offset=12", "offset=-1", "offset=x", "stream=stdin"):
        answer = lab.ask(
            "GET", f"{PROCESSES}/{process}/output?{wrong}", headers={"accept": "text/event-stream"}
        )
        assert answer.status in (400, 422), wrong


def test_a_follower_returns_to_the_offset_that_it_had_reached(lab: ApiLab) -> None:
    process = begun(lab, "greet", stdin=True)
    target = f"{PROCESSES}/{process}/output"
    name, seen = next(followed := events(lab, target))
    followed.close()  # type: ignore[attr-defined]
    assert (name, seen) == ("output", {"offset": 0, "next": 6, "text": "grün\n"})
    # In the middle of a character, and of the input: neither is lost.
    assert lab.ask("POST", f"{target[:-7]}/stdin", "gelb ü".encode()[:-1]).status == 204
    assert lab.ask("POST", f"{target[:-7]}/stdin?close=true", "gelb ü".encode()[-1:]).status == 204
    rest = list(events(lab, f"{target}?offset={seen['next']}"))
    assert "".join(data.get("text", "") for _, data in rest) == "gelb ü"
    name, last = rest[-1]
    assert (name, last["process"]["state"], last["process"]["exit_code"]) == ("end", "ended", 0)


def test_a_follower_is_told_of_a_gap(lab: ApiLab) -> None:
    process = begun(lab, "echo", "0123456789", keep=4)
    finished(lab, process)
    found = list(events(lab, f"{PROCESSES}/{process}/output?encoding=base64"))
    assert found[0] == ("lost", {"offset": 0, "next": 7})
    assert found[1] == ("output", {"offset": 7, "next": 11, "base64": base64_of(b"789\n")})


def test_much_output_comes_whole(lab: ApiLab) -> None:
    process = begun(lab, "shout")
    found = [data for _, data in events(lab, f"{PROCESSES}/{process}/output")]
    assert sum(len(each.get("text", "")) for each in found) == 500_000


def test_a_removal_ends_a_follower_that_waits(lab: ApiLab) -> None:
    process = begun(lab, "greet", stdin=True)
    followed = events(lab, f"{PROCESSES}/{process}/output")
    next(followed)
    lab.ask("DELETE", "/v1/sandboxes/one")
    assert [(name, data["process"]["state"]) for name, data in followed] == [("end", "lost")]


def test_a_wait_ends_with_what_happens_first(lab: ApiLab) -> None:
    process = begun(lab, "greet", stdin=True)
    target = f"{PROCESSES}/{process}/wait"
    assert lab.ask("POST", target, {"log": "grün", "timeout": 30}).body["state"] == "running"
    late = lab.ask("POST", target, {"port": 8000, "timeout": 0})
    assert (late.status, late.body["type"]) == (408, "sandbox.timeout")
    assert lab.ask("POST", target, {"log": "x", "port": 80}).status == 422
    lab.ask("POST", f"{PROCESSES}/{process}/stdin?close=true")
    assert finished(lab, process)["exit_code"] == 0
    missed = lab.ask("POST", target, {"log": "never"})
    assert (missed.status, missed.body["type"]) == (409, "process.ended")


def test_a_wait_for_an_answer_ends_with_the_status_that_counts(lab: ApiLab) -> None:
    process = begun(lab, *FOREVER)
    target = f"{PROCESSES}/{process}/wait"
    with status_server() as (address, statuses):
        # It is not there yet, then it is not ready, then it is.
        probe = {"port": 8000, "path": "/health", "interval": 0.05}
        late = lab.ask("POST", target, {"http": probe, "timeout": 0.2})
        assert (late.status, late.body["type"]) == (408, "sandbox.timeout")
        lab.estate.runtime.ports["one", 8000] = address
        assert lab.ask("POST", target, {"http": probe, "timeout": 30}).body["state"] == "running"
        assert statuses == []
    assert lab.ask("POST", target, {"http": probe, "log": "x"}).status == 422
    assert lab.ask("POST", target, {"http": {**probe, "path": "/a b"}}).status == 422
    assert lab.ask("POST", target, {"http": {"path": "/"}}).status == 400


@contextmanager
def status_server() -> Iterator[tuple[tuple[str, int], list[int]]]:
    """A server of this machine's loopback that answers with these statuses, one after the other."""
    statuses = [503, 404, 204]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if self.path == "/health" else 400)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield ("127.0.0.1", server.server_address[1]), statuses
        server.shutdown()


def test_a_process_is_ended_and_forgotten(lab: ApiLab) -> None:
    process = begun(lab, *FOREVER)
    assert lab.ask("POST", f"{PROCESSES}/{process}/signal", {"grace": 0}).status == 204
    assert finished(lab, process)["state"] == "ended"
    assert lab.ask("POST", f"{PROCESSES}/{process}/signal", {"name": "HUPS"}).status == 422
    assert lab.ask("POST", f"{PROCESSES}/{process}/stdin", b"x").status == 409
    assert lab.ask("DELETE", f"{PROCESSES}/{process}").status == 204
    assert lab.ask("GET", f"{PROCESSES}/{process}").status == 404


def test_an_impossible_start_is_refused(lab: ApiLab) -> None:
    for wrong in ({}, {"argv": ["x"], "command": "x"}, {"argv": ["x"], "keep": -1}, {"argv": ["x"], "a": 1}):
        assert lab.ask("POST", PROCESSES, wrong).status in (400, 422)
    assert lab.ask("GET", PROCESSES).body == {"processes": []}
