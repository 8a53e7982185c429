"""Streams of model answers for the fuzzer: made right, damaged, compared with a plain reader of the whole."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final

from egress.errors import WireError
from egress.inspect.llm.answer_meter import AnswerMeter, MeteredAnswer
from egress.inspect.llm.event_stream import EventStreamReader, event_message
from egress.inspect.llm.sse import SseReader
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.sample import Sample

_LINES: Final = (
    b'data: {"choices": [], "usage": {"prompt_tokens": 3}}',
    b'data: {"choices": [{"delta": {"content": "x"}}]}',
    b'data: {"message": {"usage": {"input_tokens": 5}}}',
    b"data: [DONE]",
    b"event: message_delta",
    b": ping",
    b"",
    b"",
    b"",
    b"data",
    b"data:",
    b"id: 1",
    b"\xef\xbb\xbfdata: {}",
    b'data: {"usage": {"output_tokens": -1}}',
)
_ENDS: Final = (b"\n", b"\r\n", b"\r")
_HEADERS: Final = (("content-type", "text/event-stream"),)
_PAYLOADS: Final = (
    b'{"usage":{"inputTokens":3,"outputTokens":4}}',
    b'{"delta":{"text":"x"},"p":"abc"}',
    b"",
    b"{",
    b"\xff" * 40,
    b'{"bytes":"e30="}',
)


def make_sse(chance: SeededRandom) -> Sample:
    """Lines with ends of all kinds, sometimes scratched."""
    end = chance.one_of(_ENDS)
    rows = [chance.one_of(_LINES) for _ in range(chance.randrange(24))]
    data = b"".join(row + (end if chance.randrange(6) else chance.one_of(_ENDS)) for row in rows)
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("llm.sse", mutate.cut(chance, data))


def check_sse(sample: Sample) -> None:
    """Whatever the pieces are, events are those of the whole text, and no byte is lost or added."""
    data = b"".join(sample.client)
    reader = SseReader()
    events = [event for piece in sample.client for event in reader.feed(piece)]
    last = reader.end()
    events += [] if last is None else [last]
    assert b"".join(event.raw for event in events) == data, "bytes are lost or added"
    blocks = re.split(rb"\n\n", re.sub(rb"\r\n|\r", b"\n", data))
    wanted = [found for block in blocks if (found := _data_of(block))]
    got = [event.data for event in events if event.data]
    assert got == wanted or data.startswith(b"\xef\xbb\xbf"), "an event is read otherwise"
    assert _metered(sample.client) == _metered((data,)), "how it is cut changes what is counted"


def _data_of(block: bytes) -> bytes:
    lines = [line for line in block.split(b"\n") if line.split(b":")[0] == b"data"]
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def _metered(pieces: tuple[bytes, ...]) -> tuple[MeteredAnswer, bytes]:
    meter = AnswerMeter("openai-chat", drops_usage=True)
    meter.begin(200, _HEADERS, has_body=True)
    passed = [part for piece in pieces for part in meter.feed(piece)]
    passed += meter.end()
    return meter.found, b"".join(passed)


def make_event_stream(chance: SeededRandom) -> Sample:
    """Messages, some of them with a length or a checksum that is wrong."""
    data = b"".join(
        event_message(chance.one_of(("metadata", "chunk", "")), chance.one_of(_PAYLOADS))
        for _ in range(chance.randrange(6))
    )
    if data and chance.randrange(2):
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("llm.event_stream", mutate.cut(chance, data))


def check_event_stream(sample: Sample) -> None:
    """Whatever the pieces are, the messages are those of the whole, each with checksums that are right."""
    data = b"".join(sample.client)
    assert _messages(sample.client) == _messages((data,)), "how it is cut changes what is read"
    found, is_whole = _messages((data,))
    assert found == _plainly(data)[: len(found)], "a message is read otherwise"
    if is_whole:
        assert len(found) == len(_plainly(data)), "a message is missing"


def _messages(pieces: tuple[bytes, ...]) -> tuple[list[bytes], bool]:
    reader = EventStreamReader()
    found: list[bytes] = []
    try:
        for piece in pieces:
            found.extend(message.payload for message in reader.feed(piece))
        reader.end()
    except WireError:
        return found, False
    return found, True


def _plainly(data: bytes) -> list[bytes]:
    """Read whole messages for as long as their checksums are right."""
    found: list[bytes] = []
    while len(data) >= 16:
        length, headers, prelude = struct.unpack_from(">III", data)
        if zlib.crc32(data[:8]) != prelude or not 16 + headers <= length <= len(data):
            break
        (checksum,) = struct.unpack_from(">I", data, length - 4)
        if zlib.crc32(data[: length - 4]) != checksum:
            break
        found.append(data[12 + headers : length - 4])
        data = data[length:]
    return found
