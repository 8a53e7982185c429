"""Requests at the port that two servers would read differently: refused, answered once, and closed behind.

Each one holds a second request, with the token, where one of the readings has it: it would delete a sandbox.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest

from tests.api_server.port_lab import TOKEN, PortLab, port_lab, received

A = f"Authorization: Bearer {TOKEN}\r\n"
CLOSE = "Connection: close\r\n"
_SHAKE = "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortLab]:
    with port_lab(tmp_path_factory.mktemp("port")) as lab:
        lab.running("one")
        yield lab


def hidden(port: PortLab) -> str:
    """The request that must not be read."""
    return f"DELETE /v1/sandboxes/one HTTP/1.1\r\nHost: {port.host}\r\n{A}\r\n"


def touch(port: PortLab, fields: str = "", body: str = "", version: str = "1.1") -> str:
    return f"POST /v1/sandboxes/one/touch HTTP/{version}\r\nHost: {port.host}\r\n{A}{fields}\r\n{body}"


def answers(port: PortLab, text: str, cut: int = 0) -> list[tuple[int, bytes]]:
    """Everything that is answered until the server closes: status and body of each answer."""
    data = text.encode("latin-1")
    with socket.create_connection((port.at.host, port.at.port), 30) as sock:
        for start in range(0, len(data), cut or len(data)):
            try:
                sock.sendall(data[start : start + (cut or len(data))])
            except OSError:
                # It was refused before its end.
                break
        said = b"".join(iter(lambda: received(sock), b""))
    parts = re.split(rb"(?=HTTP/1\.1 \d{3} )", said)[1:]
    return [(int(part[9:12]), part.partition(b"\r\n\r\n")[2]) for part in parts]


def is_there(port: PortLab) -> bool:
    return [info.name for info in port.estate.fleet.list()] == ["one"]


LENGTH = "{length}"
"""In place of the length of what is hidden."""
CHUNKED = "Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "a length and chunks": (f"Content-Length: {LENGTH}\r\n{CHUNKED}", "0\r\n\r\n{hidden}"),
    "chunks and a length": (f"{CHUNKED}Content-Length: 5\r\n", "0\r\n\r\n{hidden}"),
    "two lengths": (f"Content-Length: 0\r\nContent-Length: {LENGTH}\r\n", "{hidden}"),
    "one length twice": (f"Content-Length: {LENGTH}\r\n" * 2, "{hidden}"),
    "a list of lengths": (f"Content-Length: 0, {LENGTH}\r\n", "{hidden}"),
    "a length with a sign": (f"Content-Length: +{LENGTH}\r\n", "{hidden}"),
    "a negative length": ("Content-Length: -1\r\n", "{hidden}"),
    "a length in hex": ("Content-Length: 0x10\r\n", "{hidden}"),
    "a length beyond all": (f"Content-Length: {'9' * 30}\r\n", "{hidden}"),
    "no length at all": ("Content-Length: \r\n", "{hidden}"),
    "a length with a gap": ("Content-Length: 1_0\r\n", "{hidden}"),
    "a length by another name": (f"Content_Length: {LENGTH}\r\n", "{hidden}"),
    "another coding": ("Transfer-Encoding: identity\r\n", "{hidden}"),
    "a coding after chunks": ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n{hidden}"),
    "a coding before chunks": ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n{hidden}"),
    "chunks twice": (CHUNKED * 2, "0\r\n\r\n{hidden}"),
    "a coding that is only alike": ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n{hidden}"),
    "a tab of another kind": ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n{hidden}"),
    "a space before the colon": ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n{hidden}"),
    "a coding in the next line": ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n{hidden}"),
    "a field in the next line": (f"X: y\r\n {CHUNKED}", "0\r\n\r\n{hidden}"),
    "a bare line feed": (f"X: y\n{CHUNKED}", "0\r\n\r\n{hidden}"),
    "a bare carriage return": (f"X: y\r{CHUNKED}", "0\r\n\r\n{hidden}"),
    "a zero byte": (f"X: y\0\r\n{CHUNKED}", "0\r\n\r\n{hidden}"),
    "a chunk in C": (CHUNKED, "0x1\r\n{hidden}"),
    "a negative chunk": (CHUNKED, "-1\r\n{hidden}"),
    "a chunk beyond all": (CHUNKED, "f" * 30 + "\r\n{hidden}"),
    "a chunk with a space": (CHUNKED, "0 \r\n\r\n{hidden}"),
    "a chunk that is longer than it says": (CHUNKED, "1\r\nab\r\n0\r\n\r\n{hidden}"),
    "chunks with bare line feeds": (CHUNKED, "0\n\n{hidden}"),
    "an extension with a bare line feed": (CHUNKED, "0;a\n\r\n\r\n{hidden}"),
    "trailers that prove something": (CHUNKED, f"0\r\n{A}\r\n{{hidden}}"),
    "an extension without end": (CHUNKED, f"1;{'a' * 5000}\r\n{{hidden}}"),
}


@pytest.mark.parametrize(("fields", "body"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_with_two_readings_is_refused(port: PortLab, fields: str, body: str) -> None:
    inner = hidden(port)
    text = touch(port, fields.replace(LENGTH, str(len(inner))), body.replace("{hidden}", inner))
    for cut in (0, 7):
        found = answers(port, text, cut)
        # In pieces, its head may be answered before its body is there, which then ends the connection.
        assert len(found) == 1 or (cut and not found), found
        for status, said in found:
            assert status in (400, 501) or (cut and status == 204)
            assert not said or json.loads(said)["type"] == "request.invalid"
            assert TOKEN.encode() not in said
        assert is_there(port)


def test_chunks_in_the_old_version_are_refused(port: PortLab) -> None:
    found = answers(port, touch(port, CHUNKED, f"0\r\n\r\n{hidden(port)}", version="1.0"))
    assert [status for status, _ in found] == [400]
    assert is_there(port)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET http://127.0.0.1/v1/about HTTP/1.1", 400),
        ("GET https://evil.example/v1/about HTTP/1.1", 400),
        ("CONNECT 127.0.0.1:80 HTTP/1.1", 400),
        ("OPTIONS * HTTP/1.1", 400),
        ("GET /v1/ab out HTTP/1.1", 400),
        ("GET  /v1/about HTTP/1.1", 400),
        ("GET /v1/about", 400),
        ("GET /v1/about HTTP/1.2", 505),
        ("PRI * HTTP/2.0", 505),
        (f"GET /{'a' * 60_000} HTTP/1.1", 414),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_not_for_a_server_is_refused(port: PortLab, line: str, status: int) -> None:
    found = answers(port, f"{line}\r\nHost: {port.host}\r\n{A}\r\n{hidden(port)}")
    assert [each for each, _ in found] == [status]
    assert is_there(port)


@pytest.mark.parametrize(
    "fields", [f"X: {'a' * 70_000}\r\n", "".join(f"X{number}: a\r\n" for number in range(200))], ids=len
)
def test_a_huge_head_is_refused(port: PortLab, fields: str) -> None:
    assert [status for status, _ in answers(port, touch(port, fields))] == [431]


@pytest.mark.parametrize(
    "fields",
    [
        f"{_SHAKE}Upgrade: websocket\r\nContent-Length: {LENGTH}\r\n",
        f"{_SHAKE}Upgrade: h2c, websocket\r\n",
        f"{_SHAKE}Upgrade: websocket\r\n",
    ],
)
def test_nothing_is_read_behind_a_handshake(port: PortLab, fields: str) -> None:
    """With a body, with a choice of protocols, and with a request that does not wait for the answer."""
    inner = hidden(port)
    head = f"GET /v1/sandboxes/one/exec HTTP/1.1\r\nHost: {port.host}\r\n{A}"
    found = answers(port, f"{head}{fields.replace(LENGTH, str(len(inner)))}\r\n{inner}")
    assert [status for status, _ in found] == [400]
    assert is_there(port)


# The good twins -----------------------------------------------------------------------------------


def test_what_is_clear_is_answered(port: PortLab) -> None:
    for text in (
        touch(port, CLOSE),
        touch(port, f"{CLOSE}Content-Length: 2\r\n", "{}"),
        touch(port, f"{CLOSE}{CHUNKED}", "1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n"),
        touch(port, f"{CLOSE}Expect: 100-continue\r\nContent-Length: 2\r\n", "{}"),
        touch(port, "Content-Length: 2\r\n", "{}", version="1.0"),
        # A client that would like another version, as that of Java says it.
        touch(port, "Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"),
    ):
        for cut in (0, 7):
            assert [status for status, _ in answers(port, text, cut)][-1:] == [204], text


def test_requests_that_do_not_wait_for_answers_are_all_answered(port: PortLab) -> None:
    text = touch(port, "Content-Length: 2\r\n", "{}") + touch(port) + touch(port, CLOSE)
    for cut in (0, 7):
        assert [status for status, _ in answers(port, text, cut)] == [204] * 3
    # What comes behind the last one was never asked for.
    assert [status for status, _ in answers(port, text + hidden(port))] == [204] * 3
    assert is_there(port)


def test_the_hidden_request_would_do_harm(port: PortLab) -> None:
    port.running("two")
    other = hidden(port).replace("/one", "/two")
    text = touch(port) + other.replace("\r\n\r\n", f"\r\n{CLOSE}\r\n")
    assert [status for status, _ in answers(port, text)] == [204, 204]
    assert is_there(port)
