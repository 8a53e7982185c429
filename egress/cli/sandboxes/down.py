"""`egress down`: stop what `egress up` started, with all its sandboxes or without."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from egress import environment
from egress.cli import folder_options, progress, render
from egress.cli.sandboxes import fleet_session
from egress.errors import UnreadableError, UsageError
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.remote import connect_if_served
from egress.fleet.runtime_choice import KUBERNETES_KIND
from egress.unix.peer import peer_of
from egress.unix.stream_socket import connect_to_egress

_STOP_TIMEOUT: Final = 120.0
_POLL_INTERVAL: Final = 0.05
_ASK_TIMEOUT: Final = 10.0


@click.command()
@folder_options.of_running
@click.option("--keep", is_flag=True, help="Leave containers and pods to the next `egress up`.")
def down(runtime_dir: Path | None, *, keep: bool) -> int:
    """Stop the proxy that `egress up` started, and remove all of its sandboxes.

    Returns when they are gone. With --keep, containers and their processes go on without a network, and pods
    behind their gateway. The next `egress up` takes them over: after an upgrade, or with other rules.

    \b
    Examples:
      egress down
      egress down --keep
    """
    path = (runtime_dir or environment.runtime_dir(environment.read_environment())) / SOCKET_NAME
    with fleet_session.connect_served(runtime_dir) as fleet, _process_at(path) as process:
        names = [info.name for info in fleet.list()]
        count = f"{len(names)} sandbox{'' if len(names) == 1 else 'es'}"
        if keep:
            _leave(process, fleet.about.kind)
        else:
            fleet.end()
        with progress.step(f"{'leaving' if keep else 'removing'} {count}"):
            _wait_until_stopped(process, path)
    render.line(f"stopped; {count} {'kept for the next `egress up`' if keep else 'removed'}")
    return 0


@contextmanager
def _process_at(path: Path) -> Iterator[int | None]:
    """The process that listens, as a descriptor; None if it is out of reach, or this one."""
    with connect_to_egress(path, _ASK_TIMEOUT) as sock:
        pid = peer_of(sock).pid
        # A process of another process namespace has no number here.
        process = os.pidfd_open(pid) if pid not in (0, os.getpid()) else None
    try:
        yield process
    finally:
        if process is not None:
            os.close(process)


def _leave(process: int | None, kind: str) -> None:
    if kind not in ("docker", KUBERNETES_KIND):
        raise UsageError(
            "these sandboxes end with `egress up`: they are neither containers nor pods",
            "stop it without --keep; sandboxes of `egress up --runtime docker` can be kept",
        )
    if process is None:
        raise UnreadableError("the process of `egress up` is out of reach from here", "send it SIGUSR1")
    signal.pidfd_send_signal(process, fleet_session.LEAVE_SIGNAL)


def _wait_until_stopped(process: int | None, path: Path) -> None:
    """Return when the process has ended. Raises `UnreadableError`."""
    # The socket goes first, and the sandboxes after it.
    is_ended = _is_silent(path) if process is None else _has_ended(process)
    if not is_ended:
        raise UnreadableError("it has not stopped yet", "check up.log in the state folder")


def _has_ended(process: int) -> bool:
    look = select.poll()
    look.register(process, select.POLLIN)
    return bool(look.poll(_STOP_TIMEOUT * 1000))


def _is_silent(path: Path) -> bool:
    for _ in range(int(_STOP_TIMEOUT / _POLL_INTERVAL)):
        there = connect_if_served(path)
        if there is None:
            return True
        there.close()
        time.sleep(_POLL_INTERVAL)
    return False
