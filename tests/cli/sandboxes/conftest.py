"""Sandboxes in memory, served at a socket as `egress up` serves them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from egress.api_server.server import ApiServer
from egress.fleet import Fleet, FleetInfo
from egress.runtime.fake import FakeRuntime
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Spec


@pytest.fixture(autouse=True)
def own_log() -> None:
    """Events go to standard error, as in a command, and not where a test before has left them."""
    structlog.reset_defaults()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A runtime folder; short, since a socket is in it."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name)


ABOUT = FleetInfo(kind="fake", why="for a test")


@contextmanager
def serving(runtime: Runtime, folder: Path, about: FleetInfo = ABOUT) -> Iterator[Fleet]:
    """A fleet at its socket."""
    found = Fleet(runtime, about=about)
    service = ApiServer(found, folder)
    try:
        yield found
    finally:
        service.close()
        found.close()


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    with serving(FakeRuntime(), folder) as found:
        yield found


@pytest.fixture
def box(fleet: Fleet) -> str:
    """The name of a sandbox that is there and running."""
    fleet.create(Spec(name="one", image="any", profile="ci"))
    fleet.start("one")
    return "one"
