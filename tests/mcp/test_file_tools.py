"""Files as tools: in parts, in either form, and only what the user of the sandbox may touch."""

from __future__ import annotations

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egress.errors import EgressError
from egress.mcp.file_tools import FILE_TOOLS, MAX_READ_BYTES
from egress.mcp.tool import UnfitArgumentsError
from egress.runtime.errors import PathNotFoundError
from tests.mcp.lab import McpLab, tool_named
from tests.tiers import examples

READ, WRITE, LIST, MAKE, RENAME, REMOVE = (
    tool_named(FILE_TOOLS, name)
    for name in ("read_file", "write_file", "list_folder", "make_folder", "rename", "remove")
)


def test_a_text_is_written_and_read(lab: McpLab) -> None:
    lab.run(WRITE, path="deep/note", content="grün")
    assert (lab.workspace / "deep/note").read_text() == "grün"
    found = lab.run(READ, path="deep/note")
    assert (found.content, found.size, found.next_offset) == ("grün", 5, None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10))
@given(content=st.binary(max_size=300), limit=st.integers(50, 200))
def test_bytes_are_read_in_parts_as_they_were_written(lab: McpLab, content: bytes, limit: int) -> None:
    lab.run(WRITE, path="bytes", content=base64.b64encode(content).decode(), encoding="base64")
    parts = b""
    offset: int | None = 0
    while offset is not None:
        piece = lab.run(READ, path="bytes", offset=offset, limit=limit, encoding="base64")
        parts, offset = parts + base64.b64decode(piece.content), piece.next_offset
    assert parts == content


def test_a_part_has_a_bound(lab: McpLab) -> None:
    lab.run(WRITE, path="long", content="x" * 400_000)
    assert len(lab.run(READ, path="long").content) == 64 * 1024
    assert len(lab.run(READ, path="long", limit=MAX_READ_BYTES).content) == MAX_READ_BYTES
    past = lab.run(READ, path="long", offset=10**9)
    assert (past.content, past.next_offset) == ("", None)


def test_content_that_is_not_base64_is_refused(lab: McpLab) -> None:
    with pytest.raises(UnfitArgumentsError):
        lab.run(WRITE, path="a", content="no base64!", encoding="base64")
    assert not (lab.workspace / "a").exists()


def test_folders_are_made_listed_renamed_and_removed(lab: McpLab) -> None:
    lab.run(MAKE, path="a/b")
    lab.run(WRITE, path="a/c", content="1")
    lab.run(RENAME, path="a/c", target="a/d")
    (lab.workspace / "a/link").symlink_to("d")
    found = [(each.name, each.kind, each.is_link) for each in lab.run(LIST, path="a").entries]
    assert found == [("b", "folder", False), ("d", "file", False), ("link", "other", True)]
    assert [each.name for each in lab.run(LIST).entries] == ["a"]
    lab.run(REMOVE, path="a", recursive=True)
    assert not (lab.workspace / "a").exists()


def test_a_path_that_is_missing_or_leads_out_is_told(lab: McpLab) -> None:
    with pytest.raises(PathNotFoundError):
        lab.run(READ, path="missing")
    for tool, more in ((READ, {}), (WRITE, {"content": ""}), (LIST, {})):
        with pytest.raises(EgressError):
            lab.run(tool, path="../../etc/passwd", **more)
