"""Commands whose output comes as events: everything arrives, in order, and no thread waits for ever."""

from __future__ import annotations

import json

from egress.runtime.fake import ProgramCall
from tests.api_server.lab import ApiLab, RawConnection, api_lab
from tests.api_server.test_exec_over_http import EXEC, started


def test_events_carry_the_output_and_then_the_status(lab: ApiLab) -> None:
    lab.running()
    headers = {"accept": "text/event-stream"}
    text = lab.ask("POST", EXEC, {"argv": ["shout"]}, headers).body.decode()
    events = [block.split("\n") for block in text.strip().split("\n\n")]
    found: dict[str, str] = {"stdout": "", "stderr": ""}
    for name, data in events[:-1]:
        found[name.removeprefix("event: ")] += json.loads(data.removeprefix("data: "))["text"]
    assert found == {"stdout": "x" * 500_000, "stderr": "y" * 500_000}
    assert events[-1][0] == "event: exit"
    assert json.loads(events[-1][1].removeprefix("data: "))["exit_code"] == 0


def test_an_error_that_nobody_expected_is_the_last_event() -> None:
    with api_lab(breaks=breaks) as lab:
        lab.running()
        text = lab.ask("POST", EXEC, {"argv": ["breaks"]}, {"accept": "text/event-stream"}).body.decode()
        assert text.startswith("event: problem\n")
        assert "a value of the sandbox" not in text


def breaks(_: ProgramCall) -> None:
    raise OSError("a value of the sandbox")


def test_no_thread_waits_for_a_client_that_left_in_the_middle_of_both_outputs() -> None:
    with api_lab(both=both) as lab:
        lab.running()
        connection = RawConnection(str(lab.server.path))
        connection.request("POST", EXEC, json.dumps({"argv": ["both"]}), {"accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.readline()
        (process,) = started(lab)
        response.close()
        connection.close()
        assert process.wait(30) is not None


def both(call: ProgramCall) -> None:
    """Fill both outputs until the end."""
    while True:
        call.write(b"x" * 100_000)
        call.complain(b"y" * 100_000)
        call.sleep(0)
