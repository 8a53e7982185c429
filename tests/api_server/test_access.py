"""Who may use the API over TCP: whoever shows the token, and nobody else, whatever is sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from egress.api_server.access import (
    ApiAccessGuard,
    host_name,
    token_digest,
)
from egress.fleet import FleetInfo
from egress.wrong_tokens import MAX_WRONG_TOKENS, WrongTokenBucket
from tests.api_server.port_lab import TOKEN, PortLab, port_lab

RIGHT = f"Bearer {TOKEN}"
_HANDSHAKE = (
    "GET /v1/sandboxes/one/exec HTTP/1.1\r\nHost: {host}\r\n{extra}Upgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortLab]:
    with port_lab(tmp_path_factory.mktemp("port")) as lab:
        lab.running("one")
        yield lab


@pytest.fixture(autouse=True)
def patient(port: PortLab) -> None:
    port.clock.now += 60


def test_the_token_opens_everything_that_is_not_the_owners_alone(port: PortLab) -> None:
    assert port.ask("GET", "/v1/about", Authorization=RIGHT)[0] == 200
    assert port.ask("GET", "/v1/about", Authorization=f"bearer {TOKEN}")[0] == 200
    status, document = port.ask("GET", "/v1/openapi.json", Authorization=RIGHT)
    assert (status, "/v1/shutdown" in document["paths"]) == (200, False)
    assert "/v1/sandboxes" in document["paths"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/about",
        "/v1/openapi.json",
        "/v1/sandboxes",
        "/v1/nothing",
        "/",
        f"/v1/about?token={TOKEN}",
        f"/v1/about?access_token={TOKEN}",
        f"/v1/about?authorization=Bearer%20{TOKEN}",
    ],
)
def test_nothing_is_answered_without_the_token(port: PortLab, path: str) -> None:
    status, problem = port.ask("GET", path)
    assert (status, problem["type"]) == (401, "api.unauthorized")
    assert set(problem) == {"type", "message", "hint"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer  {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Bearer {token_digest(TOKEN.encode()).hex()}",
    ],
)
def test_another_value_is_refused(port: PortLab, value: str) -> None:
    assert port.ask("GET", "/v1/about", Authorization=value)[0] == 401


def test_two_authorizations_are_refused_though_both_are_right(port: PortLab) -> None:
    line = f"Authorization: {RIGHT}\r\n"
    answer = port.send(f"GET /v1/about HTTP/1.1\r\nHost: {port.host}\r\n{line}{line}\r\n")
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("host", ["example.com", "127.0.0.2", "localhost.example.com", "[::1]"])
def test_a_request_for_another_host_is_refused(port: PortLab, host: str) -> None:
    status, problem = port.ask("GET", "/v1/about", Host=host, Authorization=RIGHT)
    assert (status, problem["type"]) == (403, "api.forbidden")


def test_a_host_with_a_user_in_front_is_no_host(port: PortLab) -> None:
    status, problem = port.ask("GET", "/v1/about", Host="a@127.0.0.1", Authorization=RIGHT)
    assert (status, problem["type"]) == (400, "request.invalid")


def test_the_names_of_this_server_are_known(port: PortLab) -> None:
    for host in ("localhost", "LOCALHOST:1", "boxes.example.com", f"127.0.0.1:{port.at.port}"):
        assert port.ask("GET", "/v1/about", Host=host, Authorization=RIGHT)[0] == 200


@pytest.mark.parametrize(
    "lines", ["", "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", "Host: 127.0.0.1, localhost\r\n"]
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_there_is_one_host(port: PortLab, lines: str, version: str) -> None:
    head = f"GET /v1/about HTTP/{version}\r\n{lines}Authorization: {RIGHT}\r\n\r\n"
    assert port.send(head)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403")


@pytest.mark.parametrize("origin", ["https://example.com", "null", "", "http://127.0.0.1"])
def test_a_page_is_refused_though_it_has_the_token(port: PortLab, origin: str) -> None:
    status, problem = port.ask("GET", "/v1/about", Origin=origin, Authorization=RIGHT)
    assert (status, problem["type"]) == (403, "api.forbidden")


def test_calls_of_the_owner_are_not_there(port: PortLab) -> None:
    assert port.ask("POST", "/v1/shutdown", Authorization=RIGHT)[0] == 404
    assert port.ask("PUT", "/v1/ready", {"count": 1}, Authorization=RIGHT)[0] == 404
    mounts = {"image": "x", "mounts": [{"source": "/etc", "target": "/data"}]}
    status, problem = port.ask("PUT", "/v1/sandboxes/two", mounts, Authorization=RIGHT)
    assert (status, problem["type"]) == (403, "mount.refused")


def test_a_folder_of_this_machine_is_no_image_unless_its_operator_chose_it(port: PortLab) -> None:
    wanted = {"image": "/srv/system", "start": False}
    status, problem = port.ask("PUT", "/v1/sandboxes/two", wanted, Authorization=RIGHT)
    assert (status, problem["type"]) == (403, "mount.refused")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port.estate.fleet, "about", FleetInfo(kind="fake", image="/srv/system"))
        _, problem = port.ask("PUT", "/v1/sandboxes/two", wanted, Authorization=RIGHT)
    assert problem.get("type") != "mount.refused"


# What follows on a connection ---------------------------------------------------------------------


def test_a_second_request_needs_the_token_too(port: PortLab) -> None:
    first = f"GET /v1/about HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n\r\n"
    answer = port.send(f"{first}GET /v1/about HTTP/1.1\r\nHost: {port.host}\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 401 " in answer.partition(b"\r\n\r\n")[2]


def test_a_request_in_the_body_of_a_refused_one_is_not_answered(port: PortLab) -> None:
    inner = f"GET /v1/about HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n\r\n"
    outer = f"PUT /v1/sandboxes/two HTTP/1.1\r\nHost: {port.host}\r\nContent-Length: 0\r\n\r\n"
    answer = port.send(outer + inner)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_two_lengths_are_refused(port: PortLab) -> None:
    inner = f"GET /v1/about HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n\r\n"
    outer = (
        f"PUT /v1/sandboxes/two HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n"
        f"Content-Length: {len(inner) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    answer = port.send(outer + inner)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_websocket_needs_the_token_and_no_page(port: PortLab) -> None:
    def shake(extra: str) -> bytes:
        with socket.create_connection((port.at.host, port.at.port), 30) as sock:
            sock.sendall(_HANDSHAKE.format(host=port.host, extra=extra).encode())
            return sock.recv(12)

    authorized = f"Authorization: {RIGHT}\r\n"
    assert shake("") == b"HTTP/1.1 401"
    assert shake("Authorization: Bearer wrong\r\n") == b"HTTP/1.1 401"
    assert shake(f"Sec-WebSocket-Protocol: {TOKEN}\r\n") == b"HTTP/1.1 401"
    assert shake(f"Origin: http://{port.host}\r\n{authorized}") == b"HTTP/1.1 403"
    assert shake(authorized) == b"HTTP/1.1 101"


# Guesses ------------------------------------------------------------------------------------------


def test_guesses_are_bounded_and_hold_up_nobody_with_the_token(port: PortLab) -> None:
    wrong = [port.ask("GET", "/v1/about", Authorization=f"Bearer {n}") for n in range(MAX_WRONG_TOKENS + 2)]
    assert [status for status, _ in wrong] == [401] * MAX_WRONG_TOKENS + [429] * 2
    assert wrong[-1][1]["type"] == "api.rate"
    assert port.ask("GET", "/v1/about", Authorization=RIGHT)[0] == 200
    assert port.ask("GET", "/v1/about")[0] == 401
    port.clock.now += 0.125
    again = [port.ask("GET", "/v1/about", Authorization="Bearer x")[0] for _ in range(2)]
    assert again == [401, 429]


def test_no_refusal_says_what_was_sent(port: PortLab) -> None:
    marked = port.send(
        f"GET /marked HTTP/1.1\r\nHost: marked.example\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    assert b"marked" not in marked
    assert TOKEN.encode() not in marked


# Whatever a request holds -------------------------------------------------------------------------


async def _reached(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("a request went through")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([b"host", b"authorization", b"origin", b"x"]), st.binary(max_size=40)))
)
def test_no_bytes_come_through_without_the_token(headers: list[tuple[bytes, bytes]]) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the body was read")

    guard = ApiAccessGuard(_reached, token_digest(b"t" * 41), ["localhost"], WrongTokenBucket(lambda: 0.0))
    scope = {"type": "http", "headers": [(b"host", b"localhost"), *headers]}
    with pytest.raises(StopIteration):
        guard(scope, receive, send).send(None)
    assert sent[0]["status"] in (401, 403, 429)
    assert json.loads(sent[1]["body"])["type"].startswith("api.")


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_a_host_has_one_form_or_none(text: str) -> None:
    found = host_name(text)
    assert found is None or (found == found.lower() and not set(found) & set(" @/?#\\,"))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LocalHost", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("[0:0:0::1]", "::1"),
        ("::1", None),
        ("[::1", None),
        ("[::g]", None),
        ("a:b", None),
        ("a:123456", None),
        ("a\n", None),
        ("", None),
        ("a b", None),
    ],
)
def test_a_host_is_read(host: str, name: str | None) -> None:
    assert host_name(host) == name
