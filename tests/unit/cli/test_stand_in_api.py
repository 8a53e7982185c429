"""The stand-in for an API: what it keeps, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SERVE = """
import http.client, json, os, socket, ssl, tempfile
from egress.cli.stand_in_api import NAME, StandInApi
told = []
with StandInApi(told=lambda request, credential: told.append((request, credential))) as api:
    context = ssl.create_default_context(cadata=api.certificate)
    raw = socket.create_connection(("127.0.0.1", api.port))
    with context.wrap_socket(raw, server_hostname=NAME) as sock:
        connection = http.client.HTTPConnection(NAME)
        connection.sock = sock
        connection.request("GET", "/x", headers={"Authorization": "Basic eA=="})
        answer = connection.getresponse()
        body = json.loads(answer.read())
left = os.listdir(tempfile.gettempdir())
print(json.dumps([answer.status, body, told, api.received[0].splitlines()[0], left]))
"""


def test_it_proves_its_name_repeats_the_credential_and_leaves_no_key(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SERVE],
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    status, body, told, first, left = json.loads(run.stdout)
    assert (status, body) == (200, {"login": "demo", "you_sent": "Basic eA=="})
    assert told == [["GET /x HTTP/1.1", "Basic eA=="]]
    assert first == "GET /x HTTP/1.1"
    assert left == []


SILENT = """
import socket, ssl
from egress.cli.stand_in_api import NAME, StandInApi
with StandInApi() as api:
    context = ssl.create_default_context(cadata=api.certificate)
    silent = socket.create_connection(("127.0.0.1", api.port))
    raw = socket.create_connection(("127.0.0.1", api.port), timeout=20)
    with context.wrap_socket(raw, server_hostname=NAME) as sock:
        sock.sendall(b"GET / HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n")
        print(sock.recv(12).decode())
"""


def test_a_client_that_says_nothing_keeps_neither_others_nor_the_end_waiting() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SILENT], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == "HTTP/1.1 401\n"
