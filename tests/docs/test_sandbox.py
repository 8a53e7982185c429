"""The guide to the Python handle shows what runs: its examples, in order, on processes of this machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.snapshot_store import SnapshotStore
from egress.lazy_names import homes
from egress.runtime.fake import FakeRuntime
from egress.sandbox.default_fleet import DEFAULT_FLEET
from egress.sandbox.handle import Sandbox
from scripts.pages import text
from tests.docs import handle_examples
from tests.docs.handle_examples import PAGE, PYTHON
from tests.unit.sandbox.local_runtime import LocalRuntime


class ClosedListener:
    """An address for previews at which nothing listens: no socket is allowed here."""

    scheme = "http"

    def host_of(self, label: str) -> str:
        return f"{label}.localhost:41233"

    def accept(self) -> None:
        """None as if it were closed."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """What sandboxes are made in where no other runtime is named."""
    runtime = Fleet(LocalRuntime(tmp_path / "boxes"), snapshots=SnapshotStore(tmp_path), tick=None)
    monkeypatch.setattr(DEFAULT_FLEET, "_runtime", runtime)
    monkeypatch.setattr("egress.fleet.preview.local_listener", ClosedListener)
    monkeypatch.setattr("egress.sandbox.capabilities.choose_image", lambda *_: "any")
    yield runtime
    runtime.close()


def test_every_example_runs(runtime: Fleet) -> None:
    handle_examples.play(runtime)


def test_every_argument_of_a_sandbox_is_explained() -> None:
    table = text(PAGE).partition("| argument |")[2].partition("\n\n")[0]
    told = {
        name
        for cell in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    import inspect

    assert told == set(inspect.signature(Sandbox.create).parameters)


def test_every_name_that_is_imported_is_offered() -> None:
    for block in PYTHON:
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom):
                assert {alias.name for alias in node.names} <= set(homes("egress"))


def test_what_is_said_of_a_runtime_alone_holds() -> None:
    with Sandbox.create(image="any", runtime=FakeRuntime()) as sandbox:
        assert sandbox.status() == "running"
