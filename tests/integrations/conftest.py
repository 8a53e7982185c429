"""Fixtures of integrations: the compiled packages, a node that is new enough, and a running `egress up`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.pages import ROOT, blocks
from tests.cli.command import egress, put
from tests.fleet.memory_fleet import short_folder
from tests.integrations.packages import COMPILER, Workshop, machine_node, make_workshop, newer_node
from tests.proxy.clients.cache import NEWER_NODE
from tests.runtime.conftest import answering, engine
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["answering", "engine", "namespaces", "refusal"]

GUIDE = ROOT / "docs/guides/typescript.md"
RULES = next(block.text for block in blocks(GUIDE) if block.language == "yaml")


@pytest.fixture(scope="session")
def workshop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The client and the programs of the tests, compiled once."""
    COMPILER.require(request)
    return make_workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session", params=["machine", pytest.param("newer", marks=pytest.mark.nightly)])
def node(request: pytest.FixtureRequest) -> Path:
    """The node of this machine; the newer one by night, and where the machine has none that will do."""
    if request.param == "machine" and (found := machine_node()):
        return found
    NEWER_NODE.require(request)
    return newer_node()


@pytest.fixture(scope="module")
def up(refusal: str) -> Iterator[Path | None]:
    """The runtime folder of an `egress up` that all tests of a file share; none where it cannot run."""
    if refusal:
        yield None
        return
    with short_folder() as home, running(home, RULES):
        yield home / "run"


@contextmanager
def running(
    home: Path, rules: str, *options: str, runtime: str = "namespace", env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A running `egress up`, whose folder for sockets is `run`."""
    put(home / "hosts.yaml", rules)
    around = {"EGRESS_RUNTIME_DIR": str(home / "run"), **(env or {})}
    command = ("up", "--rules", "hosts.yaml", "--runtime", runtime, *options)
    started = egress(*command, cwd=home, env=around, timeout=100)
    try:
        assert started.status == 0, started
        yield
    finally:
        egress("down", cwd=home, env=around)
