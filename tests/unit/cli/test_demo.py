"""`egress demo api`: what a reader of the first page types."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import command, egress, environment

ASK = """
import ssl, sys, urllib.error, urllib.request
from http.client import HTTPSConnection
port, ca, credential = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cafile=ca))
import socket
raw = socket.create_connection(("127.0.0.1", port))
connection.sock = connection._context.wrap_socket(raw, server_hostname="api.example.com")
for method, body in (("GET", None), ("POST", b"text")):
    connection.request(method, "/v1/user", body, {"Authorization": credential} if credential else {})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode().strip())
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(["demo", "api", "--port", "0"]),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def started(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    found = re.search(r"api\.example\.com is played here: 127\.0\.0\.1:(\d+)", lines[0])
    assert found
    assert lines[2].strip().startswith('export EGRESS_UPSTREAM_CA="/')
    assert lines[3].strip() == "export EGRESS_RESOLVE=api.example.com=127.0.0.1"
    return int(found[1])


def ask(port: int, folder: Path, credential: str) -> list[str]:
    words = [sys.executable, "-c", ASK, str(port), str(folder / "demo-ca.pem"), credential]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_it_repeats_the_credential_and_prints_the_request_without_it(
    api: subprocess.Popen[str], tmp_path: Path
) -> None:
    port = started(api)
    said = '200 {"login": "demo", "you_sent": "Bearer made-up"}'
    assert ask(port, tmp_path, "Bearer made-up") == [said, said]
    assert ask(port, tmp_path, "") == ['401 {"login": "demo", "you_sent": ""}'] * 2
    api.send_signal(signal.SIGINT)
    assert api.stdout is not None
    assert api.stdout.read().splitlines() == [
        "GET /v1/user HTTP/1.1  Bearer and 7 characters",
        "POST /v1/user HTTP/1.1  Bearer and 7 characters",
        "GET /v1/user HTTP/1.1  no credential",
        "POST /v1/user HTTP/1.1  no credential",
    ]
    assert api.wait(30) == 0


def test_a_port_that_is_taken_is_said(api: subprocess.Popen[str], tmp_path: Path) -> None:
    port = started(api)
    done = egress("demo", "api", "--port", str(port), cwd=tmp_path)
    assert done.status == 3
    assert done.err == f"error: --port {port}: address already in use\nhint: name another port\n"


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    done = egress("demo", "api", "--port", "0", "--out", "notes", cwd=tmp_path)
    assert done.status == 1
    assert "notes exists and was not changed" in done.err
    assert (tmp_path / "notes").read_text() == "mine"
