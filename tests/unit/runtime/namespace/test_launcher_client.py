"""The processes of a sandbox, from outside: what they say is not believed."""

from __future__ import annotations

import pytest

from egress.runtime.errors import DoorError, SandboxStateError, UnsupportedError
from egress.runtime.namespace.launcher_client import _launch_error, _values


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ({"failed": "namespaces", "errno": 1}, UnsupportedError, "operation not permitted"),
        ({"failed": "network", "errno": 1}, UnsupportedError, "operation not permitted"),
        ({"failed": "mounts", "errno": 2, "path": "/x"}, SandboxStateError, "at /x: no such file"),
        ({"failed": "mounts", "errno": "2", "path": 5}, SandboxStateError, "the process died"),
        ({"failed": "control groups", "errno": 13}, DoorError, "permission denied"),
        ({"failed": "first process", "errno": 1}, SandboxStateError, "did not start"),
        ({}, SandboxStateError, "did not start"),
    ],
)
def test_why_it_was_not_made_is_told(answer: dict[str, object], error: type[Exception], said: str) -> None:
    found = _launch_error("one", answer)
    assert isinstance(found, error)
    assert said in str(found)
    assert found.hint


def test_what_is_no_message_says_nothing() -> None:
    for message in (b"", b"nonsense", b"[1]", b"5", b"\xff"):
        assert _values(message) == {}
