"""`egress attach`: a terminal of a sandbox, or a process that is followed by its id."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from egress.cli import folder_options
from egress.cli.sandboxes import fleet_session
from egress.cli.sandboxes.attach_terminal import attach_here
from egress.cli.sandboxes.command_streams import STDERR, STDIN, STDOUT, has_terminal, terminal_size
from egress.cli.sandboxes.shell_prompt import prompt_of
from egress.errors import EgressError, UsageError
from egress.fleet import RemoteRuntime
from egress.fleet.process_interface import OutputFollower, TrackedProcess
from egress.runtime.errors import SandboxDiedError
from egress.runtime.spec import Command
from egress.sandbox.terminal import SHELL_COMMAND

_INPUT_PIECE_BYTES = 64 * 1024


@click.command("attach")
@folder_options.of_running
@click.option("--stdin", "-i", "sends_input", is_flag=True, help="Pass input on, and close it at its end.")
@click.option("--new", "is_new", is_flag=True, help="Start a shell in a new terminal, and attach to that.")
@click.argument("sandbox")
@click.argument("process", required=False)
def attach_process(
    runtime_dir: Path | None, sends_input: bool, is_new: bool, sandbox: str, process: str | None
) -> int:
    """Attach to a terminal of a sandbox, or follow a process of it.

    Without PROCESS, attaches to the terminal that runs in the sandbox, or starts a shell in a new one.
    Ctrl-\\ detaches: the program goes on, and `egress attach` comes back to it from any terminal.

    A process without a terminal is followed from the oldest output that is kept; Ctrl-C leaves it. The status
    of a process that ends is the status of this command. `egress ps --processes` lists ids.

    \b
    Examples:
      egress attach run-4f2a9c1e
      egress attach run-4f2a9c1e 9f2c4e1ab07d5538
      echo stop | egress attach --stdin run-4f2a9c1e 9f2c4e1ab07d5538
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        found = _find(fleet, sandbox, process, is_new=is_new)
        is_terminal = found.status().columns is not None
        if is_terminal and has_terminal():
            return _attach(found, sandbox)
        return _follow(found, sandbox, sends_input=sends_input)


def _find(fleet: RemoteRuntime, sandbox: str, process: str | None, *, is_new: bool) -> TrackedProcess:
    """Return the process of this id, the one terminal that runs, or a new shell."""
    if process is not None:
        if is_new:
            raise UsageError("--new starts a process of its own", "omit PROCESS, or --new")
        return fleet.tracked.get(sandbox, process)
    running = [] if is_new else _running_terminals(fleet, sandbox)
    if len(running) > 1:
        raise UsageError(
            f"{len(running)} terminals run in the sandbox {sandbox}: {', '.join(running)}",
            "name one of them, or use --new",
        )
    if running:
        return fleet.tracked.get(sandbox, running[0])
    if not has_terminal():
        raise UsageError("input and output are no terminal", "run it in one, or name a process")
    command = Command(argv=SHELL_COMMAND, env=prompt_of(sandbox), terminal=terminal_size())
    return fleet.tracked.start(sandbox, command)


def _running_terminals(fleet: RemoteRuntime, sandbox: str) -> list[str]:
    found = fleet.tracked.all(sandbox)
    return [each.id for each in found if each.state == "running" and each.columns is not None]


def _attach(found: TrackedProcess, sandbox: str) -> int:
    if attach_here(found) == "detached":
        fleet_session.say(f"detached; come back with `egress attach {sandbox} {found.id}`")
        return 0
    return _status_of(found, sandbox)


def _follow(found: TrackedProcess, sandbox: str, *, sends_input: bool) -> int:
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
    return _status_of(found, sandbox)


def _status_of(found: TrackedProcess, sandbox: str) -> int:
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
