"""The examples of the guide to the Python handle, over the API: at its unix socket, and at a port.

The same code as with a fleet of the same process, which tests/docs/test_sandbox.py tries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from egress import open_remote
from egress.api_server.server import ApiServer
from egress.api_server.tcp_server import ApiPort
from egress.fleet import Fleet, RemoteRuntime
from egress.fleet.snapshot_store import SnapshotStore
from egress.sandbox.default_fleet import DEFAULT_FLEET
from tests.api_server.port_lab import TOKEN, port_settings
from tests.docs import handle_examples
from tests.unit.sandbox.local_runtime import LocalRuntime


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr("egress.sandbox.capabilities.choose_image", lambda *_: "any")
    with closing(
        Fleet(LocalRuntime(tmp_path / "boxes"), snapshots=SnapshotStore(tmp_path), tick=None)
    ) as found:
        yield found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, since a socket is in it."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name)


def test_every_example_runs_over_the_unix_socket(
    fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(ApiServer(fleet, folder)) as server, RemoteRuntime(server.path) as remote:
        monkeypatch.setattr(DEFAULT_FLEET, "_runtime", remote)
        handle_examples.play(remote)


def test_every_example_runs_over_a_port(fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(ApiPort(port_settings(folder))) as port:
        port.serve(fleet)
        with open_remote(f"http://{port.at}", token=TOKEN) as remote:
            monkeypatch.setattr(DEFAULT_FLEET, "_runtime", remote)
            handle_examples.play(remote)
