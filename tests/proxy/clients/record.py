"""A plugin for pytest that writes down which clients are declared, and which of their proofs passed.

    python -m pytest -p tests.proxy.clients.record --record FILE tests/proxy/clients

With --collect-only the file holds what the tests declare and no outcome. It must not judge: what becomes of
the findings is decided by `scripts/clients.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.proxy.clients.client import CAPABILITIES, Client


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clients")
    group.addoption("--record", type=Path, metavar="FILE", help="write what is proven of clients to FILE")
    group.addoption("--versions", action="store_true", help="ask each client for its version as well")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") is not None:
        config.pluginmanager.register(Recorder(config))


class Recorder:
    """Keeps what it sees until the session ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path = config.getoption("--record")
        self._asks_versions: bool = config.getoption("--versions")
        self._is_worker = hasattr(config, "workerinput")
        self._clients: dict[str, dict[str, object]] = {}
        self._claims: list[tuple[str, str, str]] = []
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With xdist only the workers collect; an outcome finds its way by name."""
        for item in session.items:
            for client, fact in claims(item):
                if client.name not in self._clients:
                    self._clients[client.name] = self._declared(client, item)
                self._claims.append((client.name, fact, item.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when none of its three phases says otherwise."""
        if self._outcomes.setdefault(report.nodeid, report.outcome) == "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        if not self._is_worker:
            found = {
                "capabilities": CAPABILITIES,
                "clients": self._clients,
                "claims": self._claims,
                "outcomes": self._outcomes,
            }
            self._file.write_text(json.dumps(found))

    def _declared(self, client: Client, item: pytest.Item) -> dict[str, object]:
        return {
            "family": client.family,
            "test": item.path.relative_to(item.config.rootpath).as_posix(),
            "version": version(client) if self._asks_versions else "",
            "variables": dict(client.variables),
            "files": dict(client.files),
            "before": [list(command) for command in client.before],
            "program": client.program,
            "denied": client.denied,
            "cannot": dict(client.cannot),
        }


def claims(item: pytest.Item) -> Iterator[tuple[Client, str]]:
    """What a test says that it proves, and of whom."""
    for marker in item.iter_markers("proves"):
        client, *facts = marker.args
        yield from ((client, fact) for fact in facts)


def version(client: Client) -> str:
    """What the client says of itself; nothing where it is not there."""
    try:
        return client.version()
    except (OSError, ValueError, PackageNotFoundError, subprocess.SubprocessError):
        return ""
