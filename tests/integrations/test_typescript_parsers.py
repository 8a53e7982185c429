"""The parsers of the TypeScript client: any cut of a stream reads the same, and other bytes are an error."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Request

from tests.cli.command import environment
from tests.integrations.packages import Workshop

pytestmark = [pytest.mark.system("npm", "npm"), pytest.mark.timeout(300)]

type Parse = Callable[[list[bytes]], list[Any]]


@contextmanager
def parser(workshop: Workshop, node: Path, kind: str) -> Iterator[Parse]:
    """A parser of the client, in one process for all examples."""
    with subprocess.Popen(
        [node, "built/parser.js", kind],
        cwd=workshop.folder,
        env=environment(workshop.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        asking, answering = peer.stdin, peer.stdout
        assert asking is not None
        assert answering is not None

        def ask(pieces: list[bytes]) -> list[Any]:
            asking.write(json.dumps([base64_of(piece) for piece in pieces]) + "\n")
            asking.flush()
            found: list[Any] = json.loads(answering.readline())
            return found

        yield ask


@pytest.fixture(scope="module")
def events(workshop: Workshop, node: Path) -> Iterator[Parse]:
    with parser(workshop, node, "events") as parse:
        yield parse


@pytest.fixture(scope="module")
def frames(workshop: Workshop, node: Path) -> Iterator[Parse]:
    with parser(workshop, node, "frames") as parse:
        yield parse


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces that end at these places."""
    ends = sorted({place % (len(data) + 1) for place in places})
    return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]


PLACES = st.lists(st.integers(0), max_size=8)
TEXTS = st.text(st.characters(codec="utf-8"))

# Events ---------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["stdout", "stderr", "exit", "change", "sandbox"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abé"), inner, max_size=3),
    max_leaves=5,
)
COMMENTS = st.sampled_from([b"", b": alive\n\n", b"\n", b": x\r\n\r\n"])


@given(st.lists(st.tuples(COMMENTS, NAMES, VALUES), max_size=5), PLACES)
def test_events_are_the_same_however_the_bytes_are_cut(
    events: Parse, sent: list[tuple[bytes, str, Any]], places: list[int]
) -> None:
    data = b"".join(
        comment + f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        for comment, name, value in sent
    )
    assert events(cut(data, places)) == [[name, value] for _, name, value in sent]


EVENT_PARTS = st.binary(max_size=40) | st.sampled_from([b"data: {", b"}\n\n", b"event:", b"\n"])


@given(st.lists(EVENT_PARTS, max_size=8))
def test_other_bytes_are_no_event_or_an_error_of_the_protocol(events: Parse, pieces: list[bytes]) -> None:
    found = events(pieces)
    assert all(isinstance(each, list) for each in found[:-1])
    if found and not isinstance(found[-1], list):
        assert found[-1] == "client.protocol"


# Frames of a WebSocket ------------------------------------------------------------------------------

TEXT, BYTES, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MAX_MESSAGE = 1024 * 1024


def frame(opcode: int, data: bytes, *, is_final: bool = True) -> bytes:
    """A frame of a server."""
    first = opcode | (0x80 if is_final else 0)
    if len(data) < 126:
        return bytes([first, len(data)]) + data
    if len(data) < 65536:
        return struct.pack("!BBH", first, 126, len(data)) + data
    return struct.pack("!BBQ", first, 127, len(data)) + data


def parts(opcode: int, data: bytes, places: list[int], between: bytes) -> bytes:
    """A message in parts, with other frames between them."""
    pieces = cut(data, places)
    made = [
        frame(0 if number else opcode, piece, is_final=number == len(pieces) - 1)
        for number, piece in enumerate(pieces)
    ]
    return between.join(made)


MESSAGES = TEXTS | st.binary(max_size=300) | st.just(b"x" * 70_000)


@given(st.lists(st.tuples(MESSAGES, PLACES, st.booleans()), max_size=4), PLACES)
def test_messages_are_the_same_however_they_are_parted_and_cut(
    frames: Parse, sent: list[tuple[str | bytes, list[int], bool]], places: list[int]
) -> None:
    data, expected = b"", []
    for message, within, has_pings in sent:
        encoded = message if isinstance(message, bytes) else message.encode()
        between = frame(PING, b"still there?") if has_pings else b""
        data += parts(BYTES if isinstance(message, bytes) else TEXT, encoded, within, between)
        expected.append(["bytes", base64_of(message)] if isinstance(message, bytes) else ["text", message])
    found = frames(cut(data + frame(CLOSE, b""), places))
    assert [each for each in found if each[0] != "control"] == expected
    assert found[-1] == ["control", CLOSE, ""]
    assert all(each[1] == PING for each in found[:-1] if each[0] == "control")


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_other_bytes_are_messages_or_an_error(frames: Parse, pieces: list[bytes]) -> None:
    found = frames(pieces)
    assert all(isinstance(each, list) for each in found[:-1])
    if found and not isinstance(found[-1], list):
        assert found[-1] in ("client.protocol", "client.connection")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes([0x80 | TEXT | 0x40, 0]), id="an extension"),
        pytest.param(bytes([0x80 | TEXT, 0x80, 0, 0, 0, 0]), id="a mask"),
        pytest.param(bytes([0x80 | 3, 0]), id="an unknown kind"),
        pytest.param(frame(0, b"x"), id="a part without a beginning"),
        pytest.param(frame(TEXT, b"x", is_final=False) + frame(TEXT, b"x"), id="two beginnings"),
        pytest.param(frame(PING, b"x", is_final=False), id="a control frame in parts"),
        pytest.param(frame(PING, b"x" * 126), id="a long control frame"),
        pytest.param(frame(TEXT, b"\xff"), id="no UTF-8"),
        pytest.param(struct.pack("!BBH", 0x82, 126, 5) + b"12345", id="a size of two bytes for five"),
        pytest.param(struct.pack("!BBQ", 0x82, 127, 5) + b"12345", id="a size of eight bytes for five"),
        pytest.param(struct.pack("!BBQ", 0x82, 127, MAX_MESSAGE + 1), id="a frame that is too long"),
        pytest.param(struct.pack("!BBQ", 0x82, 127, 2**63), id="a size without end"),
        pytest.param(
            frame(BYTES, b"x" * MAX_MESSAGE, is_final=False) + frame(0, b"x"), id="a message that is too long"
        ),
    ],
)
def test_a_frame_that_breaks_the_protocol_is_refused(frames: Parse, data: bytes) -> None:
    assert frames([data]) == ["client.protocol"]


def test_the_longest_message_is_read(frames: Parse) -> None:
    assert frames([frame(BYTES, b"x" * MAX_MESSAGE)]) == [["bytes", base64_of(b"x" * MAX_MESSAGE)]]


def test_a_frame_that_is_cut_is_a_lost_connection(frames: Parse) -> None:
    assert frames([frame(BYTES, b"12345")[:-1]]) == ["client.connection"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_another_library_reads_the_frames_that_are_sent(workshop: Workshop, node: Path, size: int) -> None:
    message = bytes(index % 251 for index in range(size))
    with parser(workshop, node, "encode") as encode:
        (sent,) = encode([message])
    client, server = WSConnection(ConnectionType.CLIENT), WSConnection(ConnectionType.SERVER)
    server.receive_data(client.send(Request(host="egress", target="/")))
    list(server.events())
    server.send(AcceptConnection())
    server.receive_data(base64.b64decode(sent))
    received = b"".join(each.data for each in server.events() if isinstance(each, BytesMessage))
    assert received == message
