"""Parts of MCP that messages ask for."""

from __future__ import annotations

import pytest

from egress.inspect.mcp.message import ClientMessage, MessageError
from egress.inspect.mcp.requested import (
    MAX_NAME_CHARS,
    ClientReply,
    InputReply,
    McpItem,
    McpToolCall,
    NamedPart,
    PartKind,
    PlainMethod,
    SessionUse,
    mirrored_name,
    requested_parts,
)
from egress.inspect.strict_json import JsonValue


def asked(method: str, **params: JsonValue) -> ClientMessage:
    return ClientMessage(method, 1, params)


def part(method: str, name: str, kind: PartKind | None = None) -> NamedPart:
    return NamedPart(kind or ("prompt" if method == "prompts/get" else "resource"), method, name)


COMPLETE = "completion/complete"
PROMPT = {"type": "ref/prompt", "name": "p"}
TEMPLATE = {"type": "ref/resource", "uri": "r"}


@pytest.mark.parametrize(
    ("message", "items", "text"),
    [
        (asked("tools/call", name="a"), (McpToolCall("a"),), "tools/call a"),
        (asked("resources/read", uri="r://a"), (part("resources/read", "r://a"),), "resources/read r://a"),
        (asked("resources/subscribe", uri="r"), (part("resources/subscribe", "r"),), "resources/subscribe r"),
        (asked("prompts/get", name="p"), (part("prompts/get", "p"),), "prompts/get p"),
        (asked(COMPLETE, ref=dict(PROMPT)), (part(COMPLETE, "p", "prompt"),), f"{COMPLETE} p"),
        (asked(COMPLETE, ref=dict(TEMPLATE)), (part(COMPLETE, "r"),), f"{COMPLETE} r"),
        (asked("ping"), (PlainMethod("ping"),), "ping"),
        (asked(""), (ClientReply(),), "response to no open request"),
        (asked("ping", inputResponses={}), (PlainMethod("ping"), InputReply()), "ping inputResponses"),
    ],
)
def test_a_message_asks_for_parts(message: ClientMessage, items: tuple[McpItem, ...], text: str) -> None:
    found = requested_parts(message)
    assert found == items
    assert " ".join(map(str, found)) == text
    assert len({*found}) == len(found)


@pytest.mark.parametrize(
    "message",
    [
        asked("tools/call"),
        asked("tools/call", name=1),
        asked("tools/call", name="a b"),
        asked("tools/call", name=""),
        asked("tools/call", name="x" * 129),
        asked("tools/call", name="a", arguments=[]),
        asked("tools/call", name="a", arguments=None),
        asked("resources/read"),
        asked("resources/read", uri=""),
        asked("resources/read", uri="x" * (MAX_NAME_CHARS + 1)),
        asked("prompts/get", name=[]),
        asked("completion/complete"),
        asked("completion/complete", ref={"type": "ref/other", "name": "p"}),
        asked("completion/complete", ref={"type": [], "name": "p"}),
        asked("completion/complete", ref={**PROMPT, "Name": "q"}),
    ],
)
def test_a_part_without_a_readable_name_is_refused(message: ClientMessage) -> None:
    with pytest.raises(MessageError) as caught:
        requested_parts(message)
    assert (caught.value.code, caught.value.message_id) == ("mcp.message", 1)


def test_the_name_that_a_head_repeats() -> None:
    assert mirrored_name(asked("tools/call", name="a")) == "a"
    assert mirrored_name(asked("resources/read", uri="r")) == "r"
    assert mirrored_name(asked("prompts/get", name="p")) == "p"
    assert mirrored_name(asked("tools/list", name="a")) is None
    assert mirrored_name(asked("tools/call", name=1)) is None


def test_uses_of_a_session_and_replies_are_shown_to_people() -> None:
    assert str(SessionUse("GET")) == "event stream"
    assert str(SessionUse("DELETE")) == "end of the session"
    assert str(ClientReply("roots/list")) == "response to roots/list"
