"""Commands over plain HTTP: one answer, or events as the output comes."""

from __future__ import annotations

import http.client
import json

from egress.runtime.fake import ProgramCall
from tests.api_server.lab import ApiLab, RawConnection, api_lab, base64_of

EXEC = "/v1/sandboxes/one/exec"


def test_a_command_is_run_to_its_end(lab: ApiLab) -> None:
    lab.running()
    answer = lab.ask("POST", EXEC, {"argv": ["echo", "hello"]})
    assert (answer.status, answer.body["exit_code"], answer.body["stdout"]) == (200, 0, "hello\n")
    assert lab.ask("POST", EXEC, {"argv": ["false"]}).body["exit_code"] == 1


def test_bytes_go_both_ways_as_base64(lab: ApiLab) -> None:
    lab.running()
    body = {"argv": ["cat"], "input": base64_of(b"\x00\xff"), "encoding": "base64"}
    assert lab.ask("POST", EXEC, body).body["stdout"] == base64_of(b"\x00\xff")
    refused = lab.ask("POST", EXEC, {**body, "input": "no base64!"})
    assert (refused.status, refused.body["type"]) == (400, "request.invalid")


def test_a_command_is_either_a_line_or_words(lab: ApiLab) -> None:
    lab.running()
    for body in ({}, {"argv": ["true"], "command": "true"}):
        assert lab.ask("POST", EXEC, body).body["type"] == "request.invalid"
    assert lab.ask("POST", EXEC, {"argv": []}).body["type"] == "spec.invalid"


def test_output_beyond_the_limit_is_dropped_and_said_to_be(lab: ApiLab) -> None:
    lab.running()
    body = lab.ask("POST", EXEC, {"argv": ["shout"], "max_output": 10}).body
    assert (body["stdout"], body["stderr"], body["truncated"]) == ("x" * 10, "y" * 10, True)


def test_a_command_that_does_not_start_is_a_problem_and_no_stream(lab: ApiLab) -> None:
    answer = lab.ask("POST", EXEC, {"argv": ["true"]}, {"accept": "text/event-stream"})
    assert (answer.status, answer.body["type"]) == (404, "sandbox.not_found")


def test_a_client_that_leaves_ends_its_command() -> None:
    for accept in ("application/json", "text/event-stream"):
        with api_lab(wait=wait) as lab:
            lab.running()
            connection = RawConnection(str(lab.server.path))
            body = json.dumps({"argv": ["wait"]})
            connection.request("POST", EXEC, body, {"accept": accept})
            if accept == "text/event-stream":
                response: http.client.HTTPResponse = connection.getresponse()
                assert response.readline() == b"event: stdout\n"
                response.close()
            (process,) = started(lab)
            connection.close()
            assert process.wait(30).exit_code != 0


def wait(call: ProgramCall) -> None:
    call.write(b"ready\n")
    call.run_on()


def started(lab: ApiLab) -> list:  # type: ignore[type-arg]
    """The commands of the sandbox, once there is one."""
    while True:
        with lab.estate.fleet._changed:
            running = list(lab.estate.fleet._members["one"].running)
        if running:
            return running
