"""`egress up`: a proxy with its sandboxes that stays, until `egress down`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final

import click

from egress import settings
from egress.cli import render
from egress.cli.render import BOLD, GOOD
from egress.cli.sandboxes import opened
from egress.cli.sandboxes.making import usual_spec
from egress.fleet import About
from egress.fleet.choice import VARIABLE, check, choose, read_kind
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.folders import SOCKET
from egress.fleet.opening import embedded
from egress.fleet.remote import connected
from egress.fleet.service import Service
from egress.policy.state import make_state
from egress.runtime.spec import MOST_READY

_LOG: Final = "up.log"
_LONGEST: Final = 120.0
_TURN: Final = 0.1
_MOST_SHOWN: Final = 4000


@click.command()
@opened.options
@click.option(
    "--ready",
    type=click.IntRange(0, MOST_READY),
    default=1,
    show_default=True,
    help="Containers that are made ahead, for those who ask for nothing special.",
)
@click.option("--foreground", is_flag=True, help="Stay in this terminal, until Ctrl-C.")
def up(
    rules: tuple[Path, ...],
    runtime: str | None,
    runtime_dir: Path | None,
    seccomp: Path | None,
    ready: int,
    foreground: bool,
) -> int:
    """Start a proxy that keeps sandboxes, and return when they can be used.

    The rules are found as for `egress serve`. Its log is the file `up.log` in the state folder.

    \b
    Examples:
      egress up
      egress up --rules hosts.yaml --runtime docker
    """
    environ = settings.environment()
    folder = runtime_dir or settings.runtime_dir(environ)
    there = connected(folder / SOCKET)
    if there is not None:
        there.close()
        raise FleetUnavailableError(
            f"sandboxes are served at {folder / SOCKET} already", "use those, or end them with `egress down`"
        )
    if foreground:
        return _stay(rules, runtime, seccomp, folder, ready)
    return _leave(rules, runtime, seccomp, folder, ready)


# In this process ----------------------------------------------------------------------------------


def _stay(
    rules: tuple[Path, ...], runtime: str | None, seccomp: Path | None, folder: Path, ready: int
) -> int:
    environ = settings.environment()
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    with opened.unwound(end, signal.SIGINT), ExitStack() as parts:
        with opened.told():
            choice = choose(read_kind(runtime, environ.get(VARIABLE)))
            check(choice, seccomp)
            fleet = parts.enter_context(embedded(choice, environ, folder, rules, seccomp=seccomp))
        service = Service(fleet, folder, ended.set)
        try:
            if ready:
                fleet.prepare(usual_spec(fleet.about), ready)
            _announce(fleet.about)
            ended.wait()
        finally:
            service.close()
    render.line("egress: all sandboxes are gone")
    return 0


def _announce(about: About) -> None:
    render.line(("egress is up: ", GOOD), about.line)
    render.line(f"  by the rules of {opened.rule_files(about)}")
    render.line("  run something in a sandbox:")
    render.line("    ", ("egress run -- env", BOLD), whole=True)
    render.line("  see what is there, and end it all:")
    render.line("    ", ("egress ps", BOLD), whole=True)
    render.line("    ", ("egress down", BOLD), whole=True)
    sys.stdout.flush()


# In another one -----------------------------------------------------------------------------------


def _leave(
    rules: tuple[Path, ...], runtime: str | None, seccomp: Path | None, folder: Path, ready: int
) -> int:
    state = settings.state_dir(settings.environment())
    make_state(state)
    log = state / _LOG
    # Nothing that lies in the working directory is imported.
    command = [sys.executable, "-P", "-m", "egress", "up", "--foreground"]
    command += [f"--runtime-dir={folder.absolute()}"]
    command += [f"--ready={ready}", *(f"--rules={path}" for path in rules)]
    command += [f"--runtime={runtime}"] if runtime else []
    command += [f"--seccomp={seccomp}"] if seccomp else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    about = _awaited(process, folder / SOCKET, log)
    _announce(about)
    return 0


def _awaited(process: subprocess.Popen[bytes], socket: Path, log: Path) -> About:
    """What is said of the sandboxes once they are served. Raises `FleetUnavailableError`."""
    said = 0
    for _ in range(int(_LONGEST / _TURN)):
        remote = connected(socket)
        if remote is not None:
            with remote:
                return remote.about
        if process.poll() is not None:
            raise _failure(log, process.returncode)
        said = _pass_on(log, said)
        time.sleep(_TURN)
    process.terminate()
    raise FleetUnavailableError("the sandboxes did not come up in time", f"look into {log}")


def _failure(log: Path, status: int) -> FleetUnavailableError:
    """What went wrong there, told as if it had been here."""
    text = log.read_text("utf-8", "replace")[-_MOST_SHOWN:]
    lines = text.splitlines()
    message = next((line[7:] for line in reversed(lines) if line.startswith("error: ")), "")
    hint = next((line[6:] for line in reversed(lines) if line.startswith("hint: ")), "")
    if message:
        for line in lines:
            # What is left are mistakes in rules.
            if not line.startswith(("egress: ", "error: ", "hint: ", "{")):
                render.line(line, stderr=True)
    error = FleetUnavailableError(message or "the sandboxes did not come up", hint or f"look into {log}")
    error.exit_status = status if message else error.exit_status
    return error


def _pass_on(log: Path, said: int) -> int:
    """Show what it says of its progress; returns how much was shown."""
    lines = log.read_text("utf-8", "replace").splitlines()
    for line in lines[said:]:
        if line.startswith("egress: "):
            opened.say(line.removeprefix("egress: "))
    return len(lines)
