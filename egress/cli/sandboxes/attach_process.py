"""`egress attach`: follow a process of a sandbox by its id."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from egress.cli import folder_options
from egress.cli.sandboxes import fleet_session
from egress.cli.sandboxes.attach import STDERR, STDIN, STDOUT
from egress.errors import EgressError
from egress.fleet.tracking import OutputFollower, TrackedProcess
from egress.runtime.errors import SandboxDiedError

_INPUT_PIECE_BYTES = 64 * 1024


@click.command("attach")
@folder_options.of_running
@click.option("--stdin", "-i", "sends_input", is_flag=True, help="Pass input on, and close it at its end.")
@click.argument("sandbox")
@click.argument("process")
def attach_process(runtime_dir: Path | None, sends_input: bool, sandbox: str, process: str) -> int:
    """Follow a process of a sandbox, from the oldest output that is kept.

    Exits with the status of the process. Ctrl-C leaves it, and it goes on. `egress ps --processes` lists ids.

    \b
    Examples:
      egress attach run-4f2a9c1e 9f2c4e1ab07d5538
      echo stop | egress attach --stdin run-4f2a9c1e 9f2c4e1ab07d5538
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        found = fleet.tracked.get(sandbox, process)
        followers = (found.follow("stdout"), found.follow("stderr"))

        def leave() -> None:
            for each in followers:
                each.close()

        threads = [
            threading.Thread(target=_copy_output, args=(*each, leave), daemon=True)
            for each in zip((STDOUT, STDERR), followers, strict=True)
        ]
        if sends_input:
            # A daemon: a blocking read cannot be cancelled, and must not delay the exit.
            threading.Thread(target=_copy_input, args=(found,), daemon=True).start()
        try:
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        except KeyboardInterrupt:
            """Leave the process; its status tells that it goes on."""
        finally:
            leave()
        # Where the outputs ended with the connection, this raises.
        status = found.status()
    if status.state == "lost":
        raise SandboxDiedError(f"the sandbox {sandbox} ended under the process", "start it again")
    if status.exit_code is None:
        fleet_session.say("left the process; it goes on")
    return status.exit_code or 0


def _copy_output(descriptor: int, follower: OutputFollower, leave: Callable[[], None]) -> None:
    at: int | None = None
    try:
        for piece in follower:
            if at is not None and piece.offset > at:
                fleet_session.say(f"{piece.offset - at} bytes of output are gone")
            at = piece.next
            rest = memoryview(piece.data)
            while rest:
                # A pipe may accept only a part of the data.
                rest = rest[os.write(descriptor, rest) :]
    except EgressError:
        # The other output ends with the same error, and the status raises it.
        return
    except OSError:
        # Nobody reads any more: that ends the command, and not the process.
        leave()


def _copy_input(process: TrackedProcess) -> None:
    with suppress(OSError, EgressError):
        while data := os.read(STDIN, _INPUT_PIECE_BYTES):
            process.write(data)
        process.close_input()
