"""Sandboxes in memory, served at a socket as `egress up` serves them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import About, Fleet
from egress.fleet.service import Service
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Spec


@pytest.fixture
def folder() -> Iterator[Path]:
    """A runtime folder; short, since a socket is in it."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name)


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    found = Fleet(FakeRuntime(), about=About(kind="fake", why="for a test"))
    service = Service(found, folder)
    yield found
    service.close()
    found.close()


@pytest.fixture
def box(fleet: Fleet) -> str:
    """The name of a sandbox that is there and running."""
    fleet.create(Spec(name="one", image="any", profile="ci"))
    fleet.start("one")
    return "one"
