"""Clients of the port that are slow, send too much, come all at once, or are of another version."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from egress.api.schema import API_VERSION, MAX_BODY_BYTES
from egress.api_server import server, tcp_server
from tests.api_server.port_lab import TOKEN, PortLab, port_lab, received
from tests.proxy.lab.certificates import Certificates

RIGHT = f"Bearer {TOKEN}"
SETTINGS = {"image": "any", "start": False}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[PortLab]:
    with port_lab(tmp_path) as lab:
        yield lab


def connect(port: PortLab) -> socket.socket:
    return socket.create_connection((port.at.host, port.at.port), 30)


def upload(port: PortLab, fields: str) -> str:
    return f"PUT /v1/sandboxes/one HTTP/1.1\r\nHost: {port.host}\r\n{fields}\r\n"


# Slow ---------------------------------------------------------------------------------------------


def test_a_body_is_not_waited_for_without_the_token(port: PortLab) -> None:
    with connect(port) as sock:
        sock.sendall(upload(port, "Content-Length: 1000000\r\n").encode())
        assert sock.recv(12) == b"HTTP/1.1 401"
        while received(sock):
            pass


def test_a_slow_handshake_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HANDSHAKE_SECONDS", 0.05)
    certificate, key = Certificates().write_leaf(tmp_path, "boxes.example.com")
    with port_lab(tmp_path, certificate=certificate, key=key) as lab, connect(lab) as sock:
        sock.sendall(b"\x16\x03\x01")
        assert received(sock) == b""


def test_silent_clients_hold_up_nobody(
    port: PortLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tcp_server, "_MAX_CONNECTIONS", 4)
    (tmp_path / "few").mkdir()
    with port_lab(tmp_path / "few") as few, ExitStack() as parts:
        silent = [parts.enter_context(connect(few)) for _ in range(8)]
        for sock in silent[:4]:
            sock.sendall(b"GET /v1/about HTTP/1.1\r\nHo")
        assert few.ask("GET", "/v1/about", Authorization=RIGHT)[0] == 200
        assert received(silent[0]) == b""


# Too much -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["Content-Length: {size}\r\n", "Transfer-Encoding: chunked\r\n"])
def test_a_body_beyond_the_limit_is_refused_before_all_of_it_is_there(port: PortLab, framing: str) -> None:
    """The client sends twice of it, and is told as soon as the limit is passed."""
    piece = b" " * 65536
    line = b"" if "Length" in framing else b"10000\r\n"
    fields = framing.format(size=2 * MAX_BODY_BYTES) + f"Authorization: {RIGHT}\r\n"
    told: list[bytes] = []
    with connect(port) as sock:
        reading = threading.Thread(target=lambda: told.append(sock.recv(12)))
        reading.start()
        sock.sendall(upload(port, fields).encode())
        sent = 0
        while not told and sent < 2 * MAX_BODY_BYTES:
            try:
                sock.sendall(line + piece + (b"\r\n" if line else b""))
            except OSError:
                break
            sent += len(piece)
        reading.join(30)
    assert told == [b"HTTP/1.1 400"]
    assert port.estate.fleet.list() == ()


# All at once --------------------------------------------------------------------------------------


def test_one_name_at_once_is_one_sandbox(port: PortLab) -> None:
    with ThreadPoolExecutor(8) as pool:
        same = [
            pool.submit(port.ask, "PUT", "/v1/sandboxes/one", SETTINGS, Authorization=RIGHT)
            for _ in range(16)
        ]
        assert {each.result()[0] for each in same} == {200}
        other = [
            pool.submit(
                port.ask,
                "PUT",
                "/v1/sandboxes/two",
                {**SETTINGS, "labels": {"by": str(number)}},
                Authorization=RIGHT,
            )
            for number in range(16)
        ]
        answered = [each.result() for each in other]
    assert sorted(status for status, _ in answered) == [200] + [409] * 15
    assert {problem["type"] for status, problem in answered if status == 409} == {"sandbox.differs"}
    assert [each.name for each in port.estate.fleet.list()] == ["one", "two"]


# Of another version -------------------------------------------------------------------------------


def test_the_version_of_the_api_is_told(port: PortLab) -> None:
    status, about = port.ask("GET", "/v1/about", Authorization=RIGHT)
    assert (status, about["api"]) == (200, API_VERSION)
    assert port.ask("GET", f"/{API_VERSION}/about", Authorization=RIGHT)[0] == 200
    status, problem = port.ask("GET", "/v2/about", Authorization=RIGHT)
    assert (status, problem["type"]) == (404, "api.not_found")


def test_a_newer_client_is_told_the_field_that_is_not_known(port: PortLab) -> None:
    status, problem = port.ask("PUT", "/v1/sandboxes/one", {**SETTINGS, "region": "x"}, Authorization=RIGHT)
    assert (status, problem["type"]) == (400, "request.invalid")
    assert "`region`" in problem["message"]
    limits = {**SETTINGS, "limits": {"gpus": 1}}
    status, problem = port.ask("PUT", "/v1/sandboxes/one", limits, Authorization=RIGHT)
    assert (status, "`gpus`" in problem["message"]) == (400, True)
    status, problem = port.ask("GET", "/v1/sandboxes?page=2", Authorization=RIGHT)
    assert (status, "`page`" in problem["message"]) == (400, True)
    assert port.estate.fleet.list() == ()
