"""A tool says what it takes, and takes nothing else."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from egress.mcp.jsonrpc import MAX_MESSAGE_BYTES
from egress.mcp.peer import TOOLS
from egress.mcp.shortened_output import ShortenedOutput
from egress.mcp.tool import Tool, ToolCall, UnfitArgumentsError
from tests.mcp.lab import McpLab

SECRET = "canary-Secret_0123456789"


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_its_schemas_are_schemas_of_objects(tool: Tool) -> None:
    for key in ("inputSchema", "outputSchema"):
        schema: Any = tool.view[key]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert tool.view["inputSchema"]["additionalProperties"] is False  # type: ignore[index]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tool_that_only_reads_destroys_nothing(tool: Tool) -> None:
    assert not (tool.reads_only and (tool.destroys or tool.reaches_out))
    assert tool.description.endswith(".")


def test_what_a_client_writes_fits_the_schema_or_is_refused() -> None:
    tool = TOOLS["read_file"]
    schema: Any = tool.view["inputSchema"]
    cases: tuple[object, ...] = (
        {"path": "a"},
        {"path": "a", "offset": 1, "limit": 5, "encoding": "base64"},
        {"path": ""},
        {"path": "a", "limit": 0},
        {"path": "a", "limit": 10**9},
        {"path": "a", "offset": -1},
        {"path": "a", "encoding": "latin-1"},
        {"path": "a", "more": 1},
        {"path": 1},
        {},
        [],
    )
    for given in cases:
        try:
            tool.read_arguments(given)
            is_taken = True
        except UnfitArgumentsError:
            is_taken = False
        assert is_taken == jsonschema.Draft202012Validator(schema).is_valid(given), given


def test_a_refusal_names_the_place_and_repeats_no_value() -> None:
    with pytest.raises(UnfitArgumentsError) as caught:
        TOOLS["exec"].read_arguments({"command": [SECRET]})
    assert "$.command" in caught.value.message
    assert SECRET not in str(caught.value)


def test_progress_is_the_newest_line_of_the_outputs(lab: McpLab) -> None:
    call = ToolCall(lab.fleet, lab.tools._sandbox, None)
    assert call.progress() == ""
    stdout, stderr = ShortenedOutput(100), ShortenedOutput(100)
    call.follow(stdout, stderr)
    stderr.add(b"warned\n")
    assert call.progress() == "warned"
    stdout.add(b"said\n")
    assert call.progress() == "said"


def test_the_list_of_all_tools_is_no_burden() -> None:
    """A model reads it before each task."""
    assert sum(len(str(each.view)) for each in TOOLS.values()) < 16_000 < MAX_MESSAGE_BYTES
