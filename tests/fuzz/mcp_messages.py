"""Messages of MCP for the fuzzer, of clients and in streams of servers, before lenient readers.

Two readers stand for the clients: one that cuts lines as the standard says, and one that cuts text wherever
Unicode has a line end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from egress.inspect.inspector import AnswerError, Facts, Unreadable
from egress.inspect.kinds import KINDS
from egress.inspect.mcp.answer import EventAnswer, MessageFilter
from egress.inspect.mcp.requested import McpToolCall, NamedPart, PlainMethod
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.mcp_predicate import McpAnswerTerms, McpPredicate, ToolTerms
from egress.types import Head
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.sample import Sample

SHOWN: Final = "search_issues"
HIDDEN: Final = "delete_repo"
TERMS: Final = McpAnswerTerms((McpPredicate((ToolTerms(ValueGlob(SHOWN)),)),), ())
_HEAD: Final = Head("POST", "https", "mcp.example.test", 443, "/mcp", (("content-type", "application/json"),))
_MEMBERS: Final = (
    '"jsonrpc":"2.0"', '"id":7', '"id":"a"', '"id":null', '"method":"tools/call"', '"method":"ping"',
    '"Method":"tools/call"', '"params":{"name":"search_issues","arguments":{}}',
    '"params":{"name":"delete_repo"}', '"params":{"name":"search_issues","Name":"delete_repo"}',
    '"params":{"uri":"repo://a/../b"}', '"params":{"ref":{"type":[],"name":"a"}}',
    '"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":[]}}', '"method":"resources/read"',
    '"method":"completion/complete"', '"result":{}', '"error":{}', '"m\\u0065thod":"x"',
)  # fmt: skip
_MESSAGES: Final = tuple(
    json.dumps({"jsonrpc": "2.0", **each}, ensure_ascii=False).encode()
    for each in (
        {"id": 7, "result": {"tools": [{"name": SHOWN}, {"name": HIDDEN}], "nextCursor": "c"}},
        {"id": 7, "result": {"tools": [{"name": HIDDEN}], "Tools": []}},
        {"id": 9, "method": "sampling/createMessage", "params": {}},
        {"method": "notifications/progress", "params": {"text": "\u2028data: {}\u2029\n\u0085"}},
        {"id": 7, "error": {"code": 1, "message": "data: x"}},
        {"id": 7, "result": {"inputRequests": {"a": {"method": "elicitation/create"}}}},
    )
)
_LINES: Final = (
    b"event: message", b"event: endpoint", b"event: x", b"id: 4", b"retry: 5", b": alive", b"data", b"data:",
    b"", b"data: {", b"\xef\xbb\xbfdata: {}", b"id: \x00",
    # Lines that hold another one, to readers that find line ends by Unicode's rules.
    b": \xe2\x80\xa8data: " + _MESSAGES[2] + b"\xe2\x80\xa8\xe2\x80\xa8",
    b"x: \xc2\x85data: " + _MESSAGES[2] + b"\xc2\x85",
    b"id: 1\x0bdata: " + _MESSAGES[2] + b"\x0b\x0b",
    b"event: message\x1cdata: " + _MESSAGES[2] + b"\x1c\x1c",
    b"retry: 1\x1ddata: " + _MESSAGES[2] + b"\x1d\x1d",
)  # fmt: skip
_ENDS: Final = (b"\n", b"\r\n", b"\r")


def make_message(chance: SeededRandom) -> Sample:
    """A body of members that fit together or do not, sometimes scratched."""
    members = chance.sample(_MEMBERS, chance.one_of((2, 3, 4, 4, 5)))
    if chance.randrange(2):
        members = [
            '"jsonrpc":"2.0"',
            '"id":7',
            '"method":"tools/call"',
            chance.one_of(_MEMBERS[7:12]),
            *members[:1],
        ]
    data = ("{" + ",".join(members) + "}").encode()
    if chance.randrange(8) == 0:
        data = b"[" + data + b"]"
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("mcp.body", mutate.cut(chance, data))


def check_message(sample: Sample) -> None:
    """However it is cut it says the same, and no server finds another method or tool in it."""
    data = b"".join(sample.client)
    found = _read((data,))
    assert _read(sample.client) == found, "how it is cut changes what is read"
    if isinstance(found, Unreadable):
        return
    item, value = found.items[0], json.loads(data)
    match item:
        case McpToolCall():
            assert (value["method"], value["params"]["name"]) == ("tools/call", item.tool), "another tool"
        case NamedPart() | PlainMethod():
            assert value["method"] == item.method, "another method"
        case _:
            assert "method" not in value, "a method is missing"


def make_stream(chance: SeededRandom) -> Sample:
    """A stream of events, with odd lines among them, sometimes scratched."""
    lines: list[bytes] = []
    for _ in range(chance.one_of((1, 2, 3, 5))):
        lines += [chance.one_of(_LINES)] if chance.randrange(2) else []
        lines += [b"data: " + chance.one_of(_MESSAGES), b""]
    end = chance.one_of(_ENDS)
    data = b"".join(line + (end if chance.randrange(9) else chance.one_of(_ENDS)) for line in lines)
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("mcp.events", mutate.cut(chance, data))


def check_stream(sample: Sample) -> None:
    """However it is cut the same passes, and no client reads a hidden tool or a request in it."""
    data = b"".join(sample.client)
    whole, is_whole = _filtered((data,))
    cut, is_cut_whole = _filtered(data[at : at + 1] for at in range(len(data)))
    assert is_whole == is_cut_whole, "how it is cut changes the verdict"
    # Events before a fault pass where they came earlier.
    assert cut == whole if is_whole else cut.startswith(whole), "how it is cut changes what passes"
    for text in (*_standard_texts(cut), *_unicode_texts(cut)):
        _check_passed(text)


def _check_passed(text: str) -> None:
    try:
        value = json.loads(text)
    except ValueError:
        return
    if isinstance(value, dict):
        assert not ("method" in value and "id" in value), "a request of the server passes"
        result = value.get("result")
        if isinstance(result, dict):
            assert HIDDEN not in json.dumps(result.get("tools", [])), "a hidden tool passes"
            assert "inputRequests" not in result, "a request in a result passes"


def _read(pieces: tuple[bytes, ...]) -> Facts | Unreadable:
    begun = KINDS["mcp"].begin(_HEAD)
    assert not isinstance(begun, Facts | Unreadable)
    for piece in pieces:
        begun.feed(piece)
    return begun.end()


def _filtered(pieces: Iterable[bytes]) -> tuple[bytes, bool]:
    """What passes, and whether the stream was without a fault."""
    answer, passed = EventAnswer(MessageFilter("tools/list", None, TERMS)), b""
    try:
        for piece in pieces:
            passed += b"".join(answer.feed(piece))
    except AnswerError:
        return passed, False
    return passed + b"".join(answer.end()), True


def _standard_texts(stream: bytes) -> Iterator[str]:
    yield from _texts(stream.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _unicode_texts(stream: bytes) -> Iterator[str]:
    yield from _texts([*stream.decode("utf-8", "replace").splitlines(), ""])


def _texts(lines: list[str]) -> Iterator[str]:
    """The data of each event, and each line of it alone: a client may take either."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            yield data[-1]
        elif not line:
            yield "\n".join(data)
            data = []
