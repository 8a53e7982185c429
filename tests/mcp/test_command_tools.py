"""Commands and processes as tools."""

from __future__ import annotations

import pytest

from egress.fleet.errors import ProcessNotFoundError
from egress.mcp.command_tools import COMMAND_TOOLS, MAX_OUTPUT_BYTES
from tests.mcp.lab import McpLab, tool_named

EXEC, START, READ, LIST, STOP = (
    tool_named(COMMAND_TOOLS, name)
    for name in ("exec", "start_process", "read_process", "list_processes", "stop_process")
)


def test_a_command_has_its_input_its_folder_and_its_outputs(lab: McpLab) -> None:
    done = lab.run(EXEC, command="cat; pwd; echo careful >&2; exit 3", input="in ", cwd="/tmp")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "in /tmp\n", "careful\n")
    assert not done.timed_out
    assert not done.truncated


def test_output_has_a_bound_and_keeps_its_end(lab: McpLab) -> None:
    done = lab.run(EXEC, command="head -c 300000 /dev/zero | tr '\\0' x; echo end")
    assert done.truncated
    assert len(done.stdout) < MAX_OUTPUT_BYTES + 100
    assert done.stdout.endswith("xend\n")


def test_a_late_command_keeps_what_it_said(lab: McpLab) -> None:
    done = lab.run(EXEC, command="echo begun; sleep 60", timeout=0.3)
    assert (done.exit_code, done.timed_out, done.stdout) == (124, True, "begun\n")


def test_a_process_goes_on_and_is_read_in_parts(lab: McpLab) -> None:
    started = lab.run(START, command="echo one; echo two >&2; exec sleep 600")
    assert started.command == "echo one; echo two >&2; exec sleep 600"
    lab.fleet.tracked.get("one", started.id).wait(30, log="one")
    said = lab.run(READ, id=started.id)
    assert (said.text, said.next_offset, said.is_more, said.state) == ("one\n", 4, False, "running")
    assert lab.run(READ, id=started.id, offset=2).text == "e\n"
    assert [each.id for each in lab.run(LIST).processes] == [started.id]
    assert lab.run(STOP, id=started.id).state == "ended"
    assert lab.run(STOP, id=started.id).state == "ended"


def test_a_long_output_of_a_process_is_read_piece_by_piece(lab: McpLab) -> None:
    started = lab.run(START, command="head -c 150000 /dev/zero")
    lab.fleet.tracked.get("one", started.id).wait(30)
    offset, pieces = 0, []
    while True:
        piece = lab.run(READ, id=started.id, offset=offset)
        pieces.append(piece.text)
        offset = piece.next_offset
        if not piece.is_more:
            break
    assert [len(each) for each in pieces] == [
        MAX_OUTPUT_BYTES,
        MAX_OUTPUT_BYTES,
        150_000 - 2 * MAX_OUTPUT_BYTES,
    ]


def test_a_process_that_is_not_there_is_told(lab: McpLab) -> None:
    for tool in (READ, STOP):
        with pytest.raises(ProcessNotFoundError):
            lab.run(tool, id="0123456789abcdef")
