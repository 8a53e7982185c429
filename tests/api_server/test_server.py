"""Who may speak to the API of an owner, and what its socket is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from egress.api_server.server import ApiServer
from egress.fleet import RemoteRuntime
from egress.fleet.errors import FleetUnavailableError
from egress.runtime.spec import Command
from tests.api_server.lab import ApiLab
from tests.fleet.memory_fleet import MemoryFleet, short_folder

_KNOCK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[1])
    sock.sendall(b"GET /v1/about HTTP/1.1\\r\\nHost: egress\\r\\n\\r\\n")
    print("answered" if sock.recv(100) else "turned away")
except OSError as error:
    print("turned away")
"""


def test_only_the_user_of_the_server_may_open_its_socket(lab: ApiLab) -> None:
    assert stat.S_IMODE(lab.server.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(lab.server.path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_is_turned_away_even_where_the_socket_is_open(lab: ApiLab) -> None:
    lab.server.path.parent.chmod(0o755)
    lab.server.path.chmod(0o666)
    words = [sys.executable, "-c", _KNOCK, str(lab.server.path)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "turned away\n"
    assert lab.ask("GET", "/v1/about").status == 200


def test_one_process_serves_a_folder(lab: ApiLab) -> None:
    with pytest.raises(FleetUnavailableError, match="another process serves"):
        ApiServer(lab.estate.fleet, lab.server.path.parent)


def test_a_socket_that_a_killed_process_left_is_replaced() -> None:
    estate = MemoryFleet()
    with short_folder() as folder:
        ApiServer(estate.fleet, folder).close()
        (folder / "sandboxes.sock").touch()
        (folder / "sandboxes.sock").unlink()
        server = ApiServer(estate.fleet, folder)
        with RemoteRuntime(server.path) as remote:
            assert remote.about.kind == "fake"
        server.close()
    estate.fleet.close()


def test_a_folder_that_cannot_have_a_socket_is_named(tmp_path: Path) -> None:
    estate = MemoryFleet()
    folder = tmp_path / ("x" * 100)
    with pytest.raises(FleetUnavailableError, match="cannot create the socket"):
        ApiServer(estate.fleet, folder)
    estate.fleet.close()


def test_closing_ends_streams_that_are_open(lab: ApiLab) -> None:
    lab.running()
    with RemoteRuntime(lab.server.path) as remote:
        process = remote.spawn("one", Command(argv=("sleep", "infinity")))
        closing = threading.Thread(target=lab.server.close)
        closing.start()
        with pytest.raises(FleetUnavailableError):
            process.wait(30)
        closing.join(30)
    assert not closing.is_alive()
