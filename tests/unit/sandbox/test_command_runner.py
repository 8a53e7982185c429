"""A command is run to its end, or to where it is given up."""

from __future__ import annotations

import threading

from egress.runtime.spec import Command
from egress.sandbox.cancellation import CancelScope, enter_scope
from egress.sandbox.handle import Sandbox


def test_a_command_is_run_to_its_end(box: Sandbox) -> None:
    assert box._place.run(Command(argv=("echo", "x"))).stdout_bytes == b"x\n"


def test_within_a_scope_it_can_be_ended(box: Sandbox) -> None:
    scope = CancelScope()
    threading.Timer(0.2, scope.cancel).start()
    with enter_scope(scope):
        assert box._place.run(Command(argv=("cat",))).stdout_bytes == b""
        assert box._place.run(Command(argv=("sleep", "61"))).exit_code in (137, 143)


def test_a_command_that_goes_on_is_begun(box: Sandbox) -> None:
    process = box._place.begin(Command(argv=("cat",)))
    process.write(b"x")
    process.close_input()
    assert process.wait(30).stdout_bytes == b"x"
