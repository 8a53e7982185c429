"""A watch tells what changes."""

from __future__ import annotations

import pytest

from egress.runtime.errors import SandboxStateError
from egress.sandbox import watch
from egress.sandbox.errors import OutputLostError
from egress.sandbox.handle import Sandbox
from egress.sandbox.watch import read_listing
from tests.unit.sandbox.contract import CASES, Case


@pytest.mark.parametrize("promise", CASES["watch"], ids=lambda case: case.__name__)
@pytest.mark.parametrize("has_python", [True, False])
def test_a_promise_is_kept(
    promise: Case, has_python: bool, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_python:
        # As Python without ctypes does.
        monkeypatch.setattr(watch, "_NOTICED_PROGRAM", "import sys; sys.exit(3)")
    promise(box)


def test_a_list_that_somebody_else_wrote_is_refused() -> None:
    """Programs in the sandbox know the mark, by the words of the command."""
    good = b"mark1 81a4 3 then\n./one\nmark2 41ed 4 now\n.\n"
    assert set(read_listing(good, b"mark")) == {"one", "."}
    for bad in (b"mark", b"mark1\n./x\n", b"mark1 file\n./x\n", good + b"markb\n"):
        with pytest.raises(SandboxStateError, match="list of files"):
            read_listing(bad, b"mark")


def test_a_list_without_an_end_is_refused(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MAX_KEPT_BYTES", 100_000)
    with box.files.watch(interval=0.05) as changes:
        box.files.write("made", "")
        assert next(changes).path == "made"
    monkeypatch.setattr(watch, "_WATCH_SCRIPT", "printf '%send\\n' \"$3\"; while :; do echo x; done")
    with box.files.watch() as changes, pytest.raises((SandboxStateError, OutputLostError)):
        next(changes)
