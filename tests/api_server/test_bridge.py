"""The bridge refuses in one shape, repeats no secret, and stays behind the token of the port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_server.bridge_lab import RIGHT, BridgeLab
from tests.api_server.lab import ApiLab
from tests.api_server.port_lab import PortLab, port_lab

SECRET = "canary-Secret_0123456789"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortLab]:
    with port_lab(tmp_path_factory.mktemp("port")) as lab:
        yield lab


@pytest.fixture
def bridge(port: PortLab) -> BridgeLab:
    return BridgeLab(port)


def test_every_call_wants_the_token(port: PortLab, bridge: BridgeLab) -> None:
    for method, path in (
        ("POST", "/v1/sandbox"),
        ("POST", "/profiles/any/v1/sandbox"),
        ("DELETE", f"/v1/sandbox/{bridge.id}"),
        ("GET", f"/v1/sandbox/{bridge.id}/running"),
        ("GET", f"/v1/sandbox/{bridge.id}/pty"),
    ):
        assert port.ask(method, path)[0] == 401, path
    assert bridge.is_there()


def test_the_socket_of_the_owner_has_no_bridge(lab: ApiLab) -> None:
    assert lab.ask("POST", "/v1/sandbox").status == 404


def test_a_command_is_answered_with_events(bridge: BridgeLab) -> None:
    assert bridge.run("echo", "hello") == (
        'event: stdout\ndata: aGVsbG8K\n\nevent: exit\ndata: {"exit_code":0}\n\n'
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"argv": "true"},
        {"argv": ["true"], "timeout_ms": -1},
        {"argv": ["true"], "timeout_ms": "1"},
        {"argv": ["true"], "timeout_ms": 1.5},
        {"argv": ["true"], "env": {"A": SECRET}},
        [],
    ],
)
def test_a_body_of_another_form_is_refused_without_its_values(bridge: BridgeLab, body: object) -> None:
    status, answer = bridge.about("POST", "/exec", body)
    assert (status, answer["code"]) == (400, "request.invalid")
    assert SECRET not in answer["error"]


@pytest.mark.parametrize("path", ["?cols=0", "?rows=100000", "?shell=bash", "?cols=1&cols=2", "?cols=x"])
def test_a_terminal_of_another_size_is_refused_before_the_handshake(
    port: PortLab, bridge: BridgeLab, path: str
) -> None:
    answer = port.send(
        f"GET /v1/sandbox/{bridge.id}/pty{path} HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"request.invalid"' in answer


def test_a_bucket_is_refused_and_its_keys_are_not_repeated(
    bridge: BridgeLab, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = {"accessKeyId": SECRET, "secretAccessKey": SECRET}
    body = {"bucket": "b", "mountPath": "/workspace/b", "options": {"credentials": keys}}
    for call in ("/mount", "/unmount"):
        status, answer = bridge.about("POST", call, body)
        assert (status, answer["code"]) == (501, "unsupported")
        assert "buckets" in answer["error"]
        assert SECRET not in str(answer)
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err


def test_an_exclude_that_leads_out_is_refused(bridge: BridgeLab) -> None:
    status, answer = bridge.about("POST", "/persist?excludes=a,../b")
    assert (status, answer["code"]) == (422, "spec.invalid")
    assert bridge.about("POST", "/persist?exclude=a")[1]["code"] == "request.invalid"


def test_an_error_names_cause_and_cure(bridge: BridgeLab) -> None:
    status, answer = bridge.about("POST", "/exec", {"argv": []})
    assert (status, answer) == (
        422,
        {"error": "argv is empty (name a program)", "code": "spec.invalid"},
    )


def test_a_path_that_no_call_has_is_not_found(bridge: BridgeLab) -> None:
    assert bridge.about("GET", "/nothing")[0] == 404
    assert bridge.about("GET", "/exec")[0] == 405
    assert bridge.about("GET", "/pty")[0] == 404


def test_a_client_that_leaves_in_its_body_changes_nothing(port: PortLab, bridge: BridgeLab) -> None:
    with socket.create_connection((port.at.host, port.at.port), 30) as sock:
        sock.sendall(
            f"POST /v1/sandbox/{bridge.id}/exec HTTP/1.1\r\nHost: {port.host}\r\nAuthorization: {RIGHT}\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
    assert bridge.about("GET", "/running") == (200, {"running": True})


def test_it_is_served_with_the_rest_of_the_api(tmp_path: Path) -> None:
    with port_lab(tmp_path) as port:
        bridge = BridgeLab(port)
        status, found = port.ask("GET", "/v1/sandboxes?label=client=openai-agents", Authorization=RIGHT)
        assert (status, [each["name"] for each in found["sandboxes"]]) == (200, [bridge.name])
