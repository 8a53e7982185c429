"""Messages of MCP that somebody asks about."""

from __future__ import annotations

import json

import pytest

from egress.inspect.mcp.message import read_client_message
from egress.rules.compile.asked_mcp import mcp_body
from egress.rules.language.report import MeaningError


@pytest.mark.parametrize(
    ("text", "method", "params"),
    [
        ("call a", "tools/call", {"name": "a", "arguments": {}}),
        ('call a {"b": [1]}', "tools/call", {"name": "a", "arguments": {"b": [1]}}),
        ('call  a\n {"b":\n 1} ', "tools/call", {"name": "a", "arguments": {"b": 1}}),
        ("read repo://a", "resources/read", {"uri": "repo://a"}),
        ('prompt p {"x": "é"}', "prompts/get", {"name": "p", "arguments": {"x": "é"}}),
        ("tools/list", "tools/list", {}),
        ('logging/setLevel {"level": "info"}', "logging/setLevel", {"level": "info"}),
    ],
)
def test_a_message_is_that_of_a_client(text: str, method: str, params: object) -> None:
    message = read_client_message(mcp_body(text))
    assert (message.method, message.params, message.message_id) == (method, params, 1)


def test_a_notification_has_no_id() -> None:
    assert "id" not in json.loads(mcp_body("notifications/initialized"))


@pytest.mark.parametrize(
    "text", ["", "call", "tools/list a", "call a [1]", "call a {", "call a {b}", "call a b {}", "read"]
)
def test_anything_else_is_a_mistake(text: str) -> None:
    with pytest.raises(MeaningError):
        mcp_body(text)
