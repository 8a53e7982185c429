"""Sessions over the API: any client finds one, runs lines in it, and ends it."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from egress.api_server import sessions
from tests.api_server.file_lab import FileLab
from tests.api_server.lab import RawConnection, base64_of

WORK = "sessions/work"
EVENTS = {"accept": "text/event-stream"}


@pytest.fixture
def lab(files: FileLab) -> FileLab:
    answer = files.ask("PUT", WORK, {})
    assert answer.status == 200, answer.body
    return files


def run(lab: FileLab, line: str, **more: object) -> Any:  # noqa: ANN401 - JSON
    answer = lab.ask("POST", f"{WORK}/exec", {"command": line, **more})
    assert answer.status == 200, answer.body
    return answer.body


def begun(lab: FileLab, line: str, **more: object) -> RawConnection:
    """A client whose command has begun, and that reads no answer."""
    connection = RawConnection(str(lab.server.path))
    body = json.dumps({"command": f"touch begun; {line}", **more})
    connection.request("POST", lab.target(f"{WORK}/exec"), body, EVENTS)
    awaited(lab, "[ -e begun ]")
    return connection


def until_waiting(lab: FileLab, count: int) -> None:
    deadline = time.monotonic() + 30
    while lab.ask("GET", WORK).body["waiting"] != count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def awaited(lab: FileLab, condition: str) -> None:
    line = f"i=0; until {condition}; do sleep 0.1; i=$((i+1)); [ $i -lt 300 ] || exit 1; done"
    answer = lab.ask("POST", "exec", {"command": line})
    assert answer.body["exit_code"] == 0, answer.body


def test_a_session_keeps_its_folder_and_variables_for_every_client(lab: FileLab) -> None:
    assert run(lab, "mkdir in; cd in; export A=1; B=2")["exit_code"] == 0
    found = run(lab, "echo $A$B; sh -c 'echo $A'; basename $PWD; echo careful >&2; (exit 3)")
    assert (found["stdout"], found["stderr"]) == ("12\n1\nin\n", "careful\n")
    assert (found["exit_code"], found["state_kept"], found["timed_out"]) == (3, True, False)
    (listed,) = lab.ask("GET", "sessions").body["sessions"]
    assert listed == lab.ask("GET", WORK).body == lab.ask("PUT", WORK, {}).body
    assert (listed["id"], listed["sandbox"], listed["state"]) == ("work", "one", "idle")


def test_other_settings_and_odd_ids_are_refused(lab: FileLab) -> None:
    differs = lab.ask("PUT", WORK, {"cwd": "/"})
    assert (differs.status, differs.body["type"]) == (409, "session.differs")
    for odd in ("a%20b", "%2e%2e", "%C3%BC", "a%00", "-a", "a" * 65):
        answer = lab.ask("PUT", f"sessions/{odd}", {})
        assert (answer.status, answer.body["type"]) == (422, "spec.invalid"), odd
    assert lab.ask("PUT", "sessions/a%2Fb", {}).status == 404
    assert lab.ask("PUT", WORK, {"folder": "/"}).status == 400
    assert lab.ask("POST", f"{WORK}/exec", {"command": "a\0b"}).status == 422
    assert lab.ask("POST", "sessions/other/exec", {"command": "true"}).body["type"] == "session.not_found"
    assert lab.ask("GET", "sessions/other").status == 404


def test_output_comes_as_events(lab: FileLab) -> None:
    answer = lab.ask("POST", f"{WORK}/exec", {"command": "echo grün; echo x >&2; exit 4"}, EVENTS)
    told = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    *pieces, last = map(json.loads, told)
    assert sorted(each["text"] for each in pieces) == ["grün\n", "x\n"]
    assert (last["exit_code"], last["state_kept"], last["timed_out"]) == (4, False, False)
    assert run(lab, "printf ü", encoding="base64")["stdout"] == base64_of("ü".encode())


def test_a_timeout_ends_the_command_and_not_the_session(lab: FileLab) -> None:
    run(lab, "true")
    late = run(lab, "A=1; sleep 60", timeout=1)
    assert (late["exit_code"], late["timed_out"], late["state_kept"]) == (124, True, True)
    assert run(lab, "echo $A")["stdout"] == "1\n"


def test_a_flood_is_kept_in_part(lab: FileLab) -> None:
    found = run(lab, "head -c 3000000 /dev/zero | tr '\\0' x", max_output=1000)
    assert (len(found["stdout"]), found["truncated"], found["state_kept"]) == (1000, True, True)


@pytest.mark.parametrize("as_events", [True, False])
def test_a_client_that_vanishes_ends_its_command_and_not_the_session(lab: FileLab, as_events: bool) -> None:
    connection = RawConnection(str(lab.server.path))
    body = json.dumps({"command": "A=1; touch begun; sleep 61; touch never"})
    connection.request("POST", lab.target(f"{WORK}/exec"), body, EVENTS if as_events else {})
    awaited(lab, "[ -e begun ]")
    connection.close()
    assert run(lab, "echo $A; ls")["stdout"] == "1\nbegun\n"


def test_a_client_that_vanishes_in_the_queue_never_runs_its_command(lab: FileLab) -> None:
    first = begun(lab, "sleep 60")
    waiting = [RawConnection(str(lab.server.path)) for _ in range(2)]
    for each, headers in zip(waiting, (EVENTS, {}), strict=True):
        each.request("POST", lab.target(f"{WORK}/exec"), json.dumps({"command": "touch never"}), headers)
    for count in (2, 1, 0):
        until_waiting(lab, count)
        if waiting:
            waiting.pop().close()
    first.close()
    assert "never" not in run(lab, "ls")["stdout"]


def test_a_reader_that_stands_still_loses_its_command(lab: FileLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "STALL_SECONDS", 0.5)
    stalled = begun(lab, "A=1; yes")
    # Other sessions go on meanwhile, and so does this one afterwards.
    assert lab.ask("PUT", "sessions/other", {}).status == 200
    answer = lab.ask("POST", "sessions/other/exec", {"command": "echo other"})
    assert answer.body["stdout"] == "other\n"
    assert run(lab, "echo $A")["stdout"] == "1\n"
    told = stalled.getresponse().read()
    assert told.endswith(b"\n\n")
    assert json.loads(told.splitlines()[-2][6:])["type"] == "sandbox.timeout"
    stalled.close()


def test_an_ended_session_is_gone_for_all(lab: FileLab) -> None:
    busy = begun(lab, "sleep 60")
    assert lab.ask("GET", WORK).body["state"] == "busy"
    assert lab.ask("DELETE", WORK).status == 204
    told = busy.getresponse().read()
    assert b'"state_kept":false' in told
    busy.close()
    assert lab.ask("DELETE", WORK).status == 404
    assert lab.ask("PUT", WORK, {}).body["state"] == "idle"
    assert run(lab, "echo new")["stdout"] == "new\n"


def test_a_stopped_sandbox_says_so_each_time(lab: FileLab) -> None:
    run(lab, "cd /")
    assert lab.ask("POST", "stop").status == 204
    for _ in range(2):
        answer = lab.ask("POST", f"{WORK}/exec", {"command": "pwd"})
        assert (answer.status, answer.body["type"]) == (410, "sandbox.died")
    assert lab.ask("GET", WORK).body["state"] == "lost"


def test_clients_at_once_take_turns(lab: FileLab) -> None:
    seen: list[str] = []

    def count() -> None:
        seen.append(run(lab, "N=$((N + 1)); echo $N")["stdout"])

    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert sorted(map(int, seen)) == list(range(1, 9))
