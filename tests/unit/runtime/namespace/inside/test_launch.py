"""The outermost process: what it says where it can make nothing."""

from __future__ import annotations

from egress.runtime.namespace.inside import launch
from tests.unit.runtime.namespace.inside_code import run_inside


def test_values_are_read_as_what_they_should_be() -> None:
    assert launch._strings(["a", 1]) == ["a", "1"]
    assert launch._strings("ab") == []
    assert launch._number("7") == 7


def test_a_door_that_nobody_keeps_is_told_and_ends_it() -> None:
    code = """
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
launch.Launcher({"controller": "/no/such/socket"}, theirs).run()
print(ours.recv(999).decode())
"""
    assert run_inside(code) == '{"failed": "control groups", "errno": 2, "path": ""}\n'


def test_a_plan_that_lacks_something_is_told() -> None:
    code = """
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
launch.Launcher({}, theirs).run()
print(ours.recv(999).decode())
"""
    assert '"path": "\'controller\'"' in run_inside(code)
