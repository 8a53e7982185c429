"""Who may speak to a fleet, and what happens to those who speak otherwise."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import RemoteRuntime
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.rpc_server import RpcServer
from tests.fleet.memory_fleet import MemoryFleet, short_folder

_KNOCK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[1])
    sock.sendall(b"\\x01\\x00\\x00\\x00\\x02{}")
    print("answered" if sock.recv(100) else "turned away")
except OSError as error:
    print("turned away")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def service(folder: Path) -> Iterator[RpcServer]:
    estate = MemoryFleet()
    service = RpcServer(estate.fleet, folder)
    yield service
    service.close()
    estate.fleet.close()


def test_the_socket_is_its_users_alone(service: RpcServer) -> None:
    assert stat.S_IMODE(service.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(service.path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_another_user_is_turned_away_even_where_the_socket_is_open(service: RpcServer) -> None:
    service.path.parent.chmod(0o755)
    service.path.chmod(0o666)
    words = [sys.executable, "-c", _KNOCK, str(service.path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "turned away\n"
    assert RemoteRuntime(service.path).list() == ()


def test_one_process_serves_a_folder(service: RpcServer, folder: Path) -> None:
    estate = MemoryFleet()
    with pytest.raises(FleetUnavailableError, match="another process serves sandboxes"):
        RpcServer(estate.fleet, folder)
    assert RemoteRuntime(service.path).list() == ()
    service.close()
    assert not service.path.exists()
    again = RpcServer(estate.fleet, folder)
    assert RemoteRuntime(again.path).list() == ()
    again.close()
    estate.fleet.close()


def test_a_socket_that_was_left_behind_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "sandboxes.sock"))
    estate = MemoryFleet()
    service = RpcServer(estate.fleet, folder)
    assert RemoteRuntime(service.path).list() == ()
    service.close()
    estate.fleet.close()


def test_a_folder_that_is_no_place_for_a_socket_is_named(tmp_path: Path) -> None:
    estate = MemoryFleet()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FleetUnavailableError):
        RpcServer(estate.fleet, tmp_path / "file")
    with pytest.raises(FleetUnavailableError, match="too long"):
        RpcServer(estate.fleet, tmp_path / ("x" * 100))
    estate.fleet.close()
