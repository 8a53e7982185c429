"""Classes 20 and 21, whoever else is on this machine: a loopback port is reached by everybody.

Case S-78 (another local user dials the listener), and S-72 (no secret in the log, at any level).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.serve_process import ServeProcess

RULES = "version: 1\nhosts:\n  docs.example.com: {}\n"
NOBODY = 65534

_CONNECT = """
import os, socket, sys
port, uid, field = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
# Nothing may be imported from here on: that user cannot read the library.
head = "CONNECT docs.example.com:443 HTTP/1.1\\r\\nHost: docs.example.com:443\\r\\n"
with socket.socket() as sock:
    sock.connect(("127.0.0.1", port))
    try:
        sock.sendall(f"{head}{field}\\r\\n".encode())
        print(sock.recv(4096).partition(b"\\r\\n")[0].decode())
    except ConnectionError:
        print("reset")
"""


def connect(served: ServeProcess, uid: int = 0, field: str = "") -> str:
    """The first line of the answer to a CONNECT of this user; `reset` where there is none."""
    words = [sys.executable, "-c", _CONNECT, str(served.port), str(uid), field]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path, RULES) as served:
        yield served


def test_the_owner_is_served(served: ServeProcess) -> None:
    """The positive control."""
    assert connect(served) == "HTTP/1.1 200 Connection established"


@as_root
def test_another_user_of_the_machine_is_not(served: ServeProcess) -> None:
    """S-78; and that it was tried is recorded."""
    assert "200" not in connect(served, NOBODY)
    (record,) = served.recorded("refusal")
    assert record["code"] == "proxy.identity"
    assert connect(served) == "HTTP/1.1 200 Connection established"


@as_root
def test_a_field_of_the_request_does_not_make_another_user_the_owner(served: ServeProcess) -> None:
    assert "200" not in connect(served, NOBODY, "Proxy-Authorization: Basic cm9vdDpyb290\r\n")


@as_root
def test_where_the_operator_says_so_another_user_is_served(tmp_path: Path) -> None:
    """The twin: it is who asks that was refused, not how."""
    with ServeProcess(tmp_path, RULES, ["--network"]) as served:
        assert "200" in connect(served, NOBODY)


def test_a_password_is_asked_for_where_there_is_one(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("open-sesame-open-sesame\n", encoding="ascii")
    password.chmod(0o600)
    with ServeProcess(tmp_path, RULES, ["--password-file", "password"]) as served:
        assert "407" in connect(served)
        assert "407" in connect(served, 0, "Proxy-Authorization: Basic YTpiYmJiYmJiYmJiYmJiYmJiYmI=\r\n")
        right = "Proxy-Authorization: Basic YTpvcGVuLXNlc2FtZS1vcGVuLXNlc2FtZQ==\r\n"
        assert "200" in connect(served, 0, right)
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
        said = "\n".join([*served.out, *served.err])
    assert "sesame" not in said


def test_no_level_of_logging_shows_a_secret(tmp_path: Path) -> None:
    """S-72, for what a start, a reload and a kill say; what requests say is for the tests of the lanes."""
    value = "sesame-open-sesame-42"
    rules = """\
version: 1
secrets:
  tracker: {from: "env:TRACKER", hosts: [docs.example.com]}
hosts:
  docs.example.com: {allow: all, inject: [{bearer: tracker}]}
"""
    arguments = ["--log-level", "debug"]
    with ServeProcess(tmp_path, rules, arguments, env={"TRACKER": value}) as served:
        connect(served)
        served.ask("POST", "/reload")
        served.egress("kill", "tracker")
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
        said = "\n".join([*served.out, *served.err, *map(str, served.records())])
    assert "tracker" in said
    assert value not in said
