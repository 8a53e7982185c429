"""Ports as tools: shown, listed and hidden."""

from __future__ import annotations

import pytest

from egress.mcp.preview_tools import PREVIEW_TOOLS
from egress.mcp.tool import UnfitArgumentsError
from tests.mcp.lab import McpLab, tool_named

EXPOSE, LIST, HIDE = (
    tool_named(PREVIEW_TOOLS, name) for name in ("expose_port", "list_previews", "unexpose_port")
)


def test_a_port_is_shown_until_it_is_hidden(lab: McpLab) -> None:
    shown = lab.run(EXPOSE, port=8000)
    assert "token=" in shown.url
    assert lab.run(EXPOSE, port=8000) == shown
    assert lab.run(LIST).previews == (shown,)
    lab.run(HIDE, port=8000)
    lab.run(HIDE, port=8000)
    assert lab.run(LIST).previews == ()


def test_a_port_is_a_port() -> None:
    for port in (0, 65536, -1, "8000", 1.5):
        with pytest.raises(UnfitArgumentsError):
            EXPOSE.read_arguments({"port": port})
