"""The protocol over HTTP, at a real port: who may talk, sessions, envelopes, events and bounds."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from egress.api_server.tcp_server import ApiPort
from egress.mcp.http import HEADER_MISMATCH, MAX_SESSIONS, make_mcp_app
from egress.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from egress.mcp.versions import UNSUPPORTED_VERSION
from tests.api_server.port_lab import TOKEN, port_settings
from tests.mcp.lab import ENVELOPE, LASTING, McpLab, mcp_lab

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}}
NEWEST = "2026-07-28"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """The messages of the events, in their order."""
        assert self.headers["content-type"].startswith("text/event-stream")
        lines = (line for line in self.text.decode().split("\n") if line.startswith("data: "))
        return [json.loads(line.removeprefix("data: ")) for line in lines]


@dataclass(frozen=True)
class McpPort:
    lab: McpLab
    port: ApiPort

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=30)

    def send(
        self, method: str, body: bytes | None = None, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """Send one request. A header of None is left out."""
        usual = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        wanted = {name: value for name, value in {**usual, **(headers or {})}.items() if value is not None}
        with closing(self.connect()) as connection:
            connection.request(method, "/mcp", body, wanted)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def ask(
        self, method: str, params: object = None, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        message: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not None:
            message["params"] = params
        return self.send("POST", json.dumps(message).encode(), headers)

    def ask_newest(
        self, method: str, headers: Mapping[str, str | None] | None = None, /, **params: object
    ) -> Answer:
        routing = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": method}
        if "name" in params:
            routing["Mcp-Name"] = str(params["name"])
        return self.ask(method, {"_meta": dict(ENVELOPE), **params}, {**routing, **(headers or {})})

    def session(self) -> dict[str, str]:
        """Make a handshake, and return the headers of its session."""
        answer = self.ask("initialize", INITIALIZE)
        assert answer.status == 200, answer
        return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpPort]:
    settings = port_settings(tmp_path_factory.mktemp("port"))
    with mcp_lab(tmp_path_factory.mktemp("sandbox")) as lab, closing(ApiPort(settings)) as port:
        port.serve_app(make_mcp_app(lab.tools))
        yield McpPort(lab, port)


def exec_call(command: str) -> dict[str, object]:
    return {"name": "exec", "arguments": {"command": command}}


# Who may talk


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "attacker.example.com"}, 403),
        ({"Host": "localhost.attacker.example.com"}, 403),
        ({"Origin": "https://attacker.example.com"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_nobody_talks_without_the_token_or_from_a_page(
    at: McpPort, headers: dict[str, str | None], status: int
) -> None:
    for method in ("POST", "GET", "DELETE"):
        assert at.send(method, b"{}" if method == "POST" else None, headers).status == status
    assert at.ask("initialize", INITIALIZE, {"Host": "localhost"}).status == 200


def test_other_paths_and_methods_are_not_there(at: McpPort) -> None:
    assert at.send("GET").status == 405
    assert at.send("PUT", b"{}").status == 405
    with closing(at.connect()) as connection:
        connection.request("POST", "/", b"{}", {"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 404


# Sessions


def test_a_session_begins_with_a_handshake_and_ends_with_delete(at: McpPort) -> None:
    headers = at.session()
    assert at.ask("tools/list", {}, headers).json["result"]["tools"]
    answer = at.ask("tools/call", exec_call("echo hi"), headers)
    assert answer.status == 200
    assert answer.events[-1]["result"]["structuredContent"]["stdout"] == "hi\n"
    notified = at.send("POST", b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', headers)
    assert (notified.status, notified.text) == (202, b"")
    assert at.send("DELETE", None, headers).status == 204
    assert at.ask("tools/list", {}, headers).status == 404
    assert at.send("DELETE", None, headers).status == 404


def test_without_a_session_nothing_is_answered(at: McpPort) -> None:
    assert at.ask("tools/list", {}).status == 400
    assert at.ask("tools/list", {}, {"Mcp-Session-Id": "guessed"}).status == 404
    assert at.send("DELETE").status == 400
    assert at.ask("initialize", {}).json["error"]["code"] == INVALID_PARAMS
    assert "mcp-session-id" not in at.ask("initialize", {}).headers


def test_ids_of_sessions_differ_and_are_long(at: McpPort) -> None:
    ids = {at.session()["Mcp-Session-Id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(each) >= 32 and each.isprintable() for each in ids)


def test_sessions_have_a_bound_and_the_oldest_begins_again(at: McpPort) -> None:
    first, second = at.session(), at.session()
    # One that is in use stays.
    for _ in range(MAX_SESSIONS - 1):
        assert at.ask("ping", {}, second).status == 200
        at.session()
    assert at.ask("ping", {}, first).status == 404
    assert at.ask("ping", {}, second).status == 200


def test_a_version_that_is_not_spoken_is_refused_in_a_session(at: McpPort) -> None:
    headers = at.session()
    for version in ("2023-01-01", NEWEST):
        assert at.ask("ping", {}, {**headers, "MCP-Protocol-Version": version}).status == 400
    assert at.ask("ping", {}, {**headers, "MCP-Protocol-Version": None}).status == 200


# Without a handshake


def test_a_newer_client_needs_no_session(at: McpPort) -> None:
    found = at.ask_newest("server/discover").json["result"]
    assert NEWEST in found["supportedVersions"]
    assert at.ask_newest("tools/list").json["result"]["resultType"] == "complete"
    answer = at.ask_newest("tools/call", **exec_call("echo hi"))
    assert answer.events[-1]["result"]["structuredContent"]["stdout"] == "hi\n"
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": None},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": None},
        {"Mcp-Name": "read_file"},
        {"Mcp-Name": None},
        {"Mcp-Name": "=?base64?!!?="},
    ],
)
def test_headers_that_say_something_else_are_refused(at: McpPort, headers: dict[str, str | None]) -> None:
    answer = at.ask_newest("tools/call", headers, **exec_call("touch never"))
    assert (answer.status, answer.json["error"]["code"]) == (400, HEADER_MISMATCH)
    assert not (at.lab.workspace / "never").exists()
    encoded = {"Mcp-Name": "=?base64?ZXhlYw==?="}
    assert at.ask_newest("tools/call", encoded, **exec_call("true")).status == 200


def test_an_envelope_that_does_not_fit_is_refused(at: McpPort) -> None:
    version, _ = ENVELOPE
    other = {**ENVELOPE, version: "2027-01-01"}
    answer = at.ask_newest("tools/list", {"MCP-Protocol-Version": "2027-01-01"}, _meta=other)
    assert (answer.status, answer.json["error"]["code"]) == (400, UNSUPPORTED_VERSION)
    answer = at.ask_newest("tools/list", _meta={version: NEWEST})
    assert (answer.status, answer.json["error"]["code"]) == (400, INVALID_PARAMS)
    assert answer.json["id"] == 1
    answer = at.ask_newest("prompts/list")
    assert (answer.status, answer.json["error"]["code"]) == (404, METHOD_NOT_FOUND)
    notified = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}'
    assert at.send("POST", notified, {"MCP-Protocol-Version": NEWEST}).status == 202
    assert at.send("POST", notified, {"MCP-Protocol-Version": "2027-01-01"}).status == 400


# Bounds and forms


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Accept": "application/json"}, 406),
        ({"Accept": None}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_content_and_answers_are_of_the_right_kind(
    at: McpPort, headers: dict[str, str | None], status: int
) -> None:
    assert at.ask("initialize", INITIALIZE, headers).status == status


def test_a_body_that_is_no_message_is_told(at: McpPort) -> None:
    codes = {b"": PARSE_ERROR, b"{": PARSE_ERROR, b"[]": INVALID_REQUEST, b"{}": INVALID_REQUEST}
    for body, code in codes.items():
        answer = at.send("POST", body)
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, code, None)


def test_a_body_has_a_bound(at: McpPort) -> None:
    connection = at.connect()
    with closing(connection):
        connection.putrequest("POST", "/mcp")
        for name, value in (
            ("Authorization", f"Bearer {TOKEN}"),
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("Transfer-Encoding", "chunked"),
        ):
            connection.putheader(name, value)
        connection.endheaders()
        piece = b"x" * 1024 * 1024
        for _ in range(MAX_MESSAGE_BYTES // len(piece) + 1):
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        assert connection.getresponse().status == 413


def test_a_header_that_stands_twice_is_refused(at: McpPort) -> None:
    headers = at.session()
    with closing(at.connect()) as connection:
        connection.putrequest("POST", "/mcp")
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
        for name, value in (
            ("Authorization", f"Bearer {TOKEN}"),
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("Mcp-Session-Id", headers["Mcp-Session-Id"]),
            ("Mcp-Session-Id", "another"),
            ("Content-Length", str(len(body))),
        ):
            connection.putheader(name, value)
        connection.endheaders(body)
        assert connection.getresponse().status == 400


# Events


def test_progress_comes_before_the_answer(at: McpPort) -> None:
    params = {**exec_call("echo one; sleep 1.5"), "_meta": {"progressToken": 7}}
    *heard, answer = at.ask("tools/call", params, at.session()).events
    assert heard[0]["method"] == "notifications/progress"
    assert heard[0]["params"]["progressToken"] == 7
    assert answer["result"]["isError"] is False


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_client_that_leaves_ends_its_command(at: McpPort, is_newest: bool) -> None:
    before = len(at.lab.runtime.started)
    routing = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "exec"}
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "*/*",
        **(routing if is_newest else at.session()),
    }
    params = exec_call(f"{LASTING}") | ({"_meta": dict(ENVELOPE)} if is_newest else {})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    markers = set(at.lab.workspace.glob("started-*"))
    with closing(at.connect()) as connection:
        connection.request("POST", "/mcp", body, headers)
        response = connection.getresponse()
        assert response.status == 200
        # The command may run before its starter has written it down.
        while set(at.lab.workspace.glob("started-*")) == markers or len(at.lab.runtime.started) == before:
            time.sleep(0.01)
        response.close()
    assert at.lab.runtime.started[before].wait(30).exit_code != 0


def test_a_notification_cancels_a_request_of_its_session_only(at: McpPort) -> None:
    headers, others = at.session(), at.session()
    before, markers = len(at.lab.runtime.started), set(at.lab.workspace.glob("started-*"))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": exec_call(LASTING)})
    cancel = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}'
    usual = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "*/*",
        **headers,
    }
    with closing(at.connect()) as connection:
        connection.request("POST", "/mcp", body, usual)
        response = connection.getresponse()
        while set(at.lab.workspace.glob("started-*")) == markers or len(at.lab.runtime.started) == before:
            time.sleep(0.01)
        assert at.send("POST", cancel, others).status == 202
        with pytest.raises(TimeoutError):
            at.lab.runtime.started[before].wait(0.3)
        assert at.send("POST", cancel, headers).status == 202
        assert at.lab.runtime.started[before].wait(30).exit_code != 0
        assert b'"result"' not in response.read()
