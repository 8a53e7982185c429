"""What a process that is found by its id promises, here and over the API."""

from __future__ import annotations

import inspect

import pytest

from egress.fleet.process_interface import OutputFollower, OutputPiece, ProcessTracker, TrackedProcess
from egress.fleet.process_table import ProcessTable, TableFollower, TableProcess
from egress.fleet.remote_processes import RemoteFollower, RemoteTrackedProcess, RemoteTracker


def test_a_piece_knows_what_follows() -> None:
    assert OutputPiece(7, b"789", 7).next == 10


@pytest.mark.parametrize(
    ("promise", "kind"),
    [
        (ProcessTracker, ProcessTable),
        (ProcessTracker, RemoteTracker),
        (TrackedProcess, TableProcess),
        (TrackedProcess, RemoteTrackedProcess),
        (OutputFollower, TableFollower),
        (OutputFollower, RemoteFollower),
    ],
    ids=str,
)
def test_both_can_do_all_of_it(promise: type, kind: type) -> None:
    wanted = {name for name in dir(promise) if not name.startswith("_")} - {"id"}
    for name in wanted:
        promised, kept = getattr(promise, name), getattr(kind, name)
        assert inspect.signature(promised).parameters.keys() == inspect.signature(kept).parameters.keys(), (
            name
        )
