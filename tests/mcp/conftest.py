"""What tests of the MCP server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.lab import McpLab, mcp_lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[McpLab]:
    with mcp_lab(tmp_path) as lab:
        yield lab
