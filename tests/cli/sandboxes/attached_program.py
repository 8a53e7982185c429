"""`python joined.py terminal|pipes WORD...`: a command of a sandbox in memory, joined to this process.

Programs: those every such sandbox has, and `report`, which says what it was given; `stuck` runs until it is
ended, and `flood` writes for ever.
"""

from __future__ import annotations

import sys

from egress.cli.sandboxes.command_streams import attach
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.spec import Command, Spec


def _report(call: ProgramCall) -> int:
    call.write(b"out:" + call.read())
    call.complain(b"err")
    return 7


def _stuck(call: ProgramCall) -> None:
    call.write(b"begun\n")
    call.run_on()


def _flood(call: ProgramCall) -> None:
    while True:
        call.write(b"x" * 65536)


def main() -> int:
    """Run it, and end as it did."""
    runtime = FakeRuntime(programs={"report": _report, "stuck": _stuck, "flood": _flood})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    command = Command(argv=tuple(sys.argv[2:]), most_output=0)
    return attach(
        lambda wanted, output: runtime.spawn("one", wanted, output),
        command,
        terminal=sys.argv[1] == "terminal",
    )


if __name__ == "__main__":
    sys.exit(main())
