"""`egress up`: start a long-lived proxy with sandboxes, until `egress down`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from egress import environment
from egress.api_server.server import ApiServer
from egress.cli import folder_options, progress, render
from egress.cli.render import BOLD, GOOD
from egress.cli.sandboxes import api_options, fleet_options, fleet_session, preview_options
from egress.cli.sandboxes.api_options import ApiOptions
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.cli.sandboxes.preview_options import PreviewOptions
from egress.cli.sandboxes.sandbox_command import default_spec
from egress.fleet import FleetInfo, SandboxFleet
from egress.fleet.cluster_fleet import open_cluster_fleet, refuse_own_proxy
from egress.fleet.errors import FleetUnavailableError, ProxyFailedError
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.opening import open_embedded, placed_environment
from egress.fleet.preview_listener import listen_at
from egress.fleet.remote import connect_if_served
from egress.fleet.runtime_choice import (
    KUBERNETES_KIND,
    RUNTIME_VARIABLE,
    RuntimeChoice,
    check_choice,
    choose_runtime,
    read_kind,
)
from egress.policy.state_dir_ownership import make_state_dir
from egress.runtime.spec import MAX_READY

if TYPE_CHECKING:
    from egress.api_server.tcp_server import ApiPortSettings
    from egress.fleet.fleet import Fleet
    from egress.fleet.preview_address import PreviewPlace

_LOG: Final = "up.log"
_START_TIMEOUT: Final = 120.0
_POLL_INTERVAL: Final = 0.1
_MAX_SHOWN_CHARS: Final = 4000


@click.command()
@fleet_options.add_options
@api_options.add_options
@preview_options.add_options
@click.option("--image", help="Image of sandboxes that name none. [a small one]")
@click.option(
    "--ready",
    type=click.IntRange(0, MAX_READY),
    default=1,
    show_default=True,
    help="Default containers to create in advance.",
)
@click.option("--foreground", is_flag=True, help="Stay in the foreground until Ctrl-C.")
def up(
    source: FleetOptions,
    api: ApiOptions,
    previews: PreviewOptions,
    image: str | None,
    ready: int,
    foreground: bool,
) -> int:
    """Start a proxy with long-lived sandboxes, and return when it is ready.

    Containers and pods that the last one left, after a crash or `egress down --keep`, come back. Rules are
    found as for `egress serve`. The log is `up.log` in the state folder.

    \b
    Examples:
      egress up
      egress up --rules hosts.yaml --runtime docker
      egress up --image my-agents --ready 2
      egress up --api-listen 127.0.0.1:8700
    """
    state = environment.state_dir(folder_options.with_state_dir(source.state_dir))
    ports = UpPorts(api.settings(state), previews.place)
    folder = fleet_session.served_folder(source)
    there = connect_if_served(folder / SOCKET_NAME)
    if there is not None:
        there.close()
        raise FleetUnavailableError(
            f"`egress up` is already running at {folder / SOCKET_NAME}",
            "use it, or stop it with `egress down`",
        )
    if foreground:
        return _stay(source, image, folder, ready, ports)
    return _leave(source, image, folder, ready, state, (*api.words, *previews.words), ports)


@dataclass(frozen=True, slots=True)
class UpPorts:
    """Ports of this machine that are served on request."""

    api: ApiPortSettings | None
    previews: PreviewPlace | None

    @property
    def private_files(self) -> tuple[Path, ...]:
        """Files that no sandbox may see."""
        return tuple(
            file for each in (self.api, self.previews) if each is not None for file in each.private_files
        )


# In this process ----------------------------------------------------------------------------------


def _stay(source: FleetOptions, image: str | None, folder: Path, ready: int, ports: UpPorts) -> int:
    environ = placed_environment(source.state_dir, source.audit_dir)
    ended, removes = threading.Event(), threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        if number != fleet_session.LEAVE_SIGNAL:
            removes.set()
        ended.set()

    def choose() -> RuntimeChoice:
        choice = choose_runtime(read_kind(source.runtime, environ.get(RUNTIME_VARIABLE)), environ)
        check_choice(choice, source.seccomp, (image,) if image else ())
        return choice

    def end_all() -> None:
        removes.set()
        ended.set()

    with fleet_session.on_signal(end, signal.SIGINT, fleet_session.LEAVE_SIGNAL), ExitStack() as parts:
        # Before the fleet: an address that is taken is told before anything starts.
        opened = None if ports.api is None else parts.enter_context(closing(api_options.open_port(ports.api)))
        shown = parts.enter_context(closing(listen_at(ports.previews))) if ports.previews else None
        with fleet_session.translate_errors(image):
            fleet = parts.enter_context(_opened(source, environ, folder, choose, ports))
            # Whatever ends this process but a request: the sandboxes of the last one are not to be lost.
            parts.callback(lambda: fleet.close() if removes.is_set() else fleet.leave())
            fleet.about = replace(fleet.about, image=image or "")
        if shown is not None:
            fleet.exposed.listen_at(shown)
        returned = _names(fleet)
        # After the fleet, so that no client can reach the socket of a proxy that fails to start.
        service = ApiServer(fleet, folder, end_all)
        try:
            # A cluster has no default image, and its warm pools keep pods ready.
            if ready and fleet.about.kind != KUBERNETES_KIND:
                usual = default_spec(fleet.about)
                # Told to clients, which would ask the engine for it.
                fleet.about = replace(fleet.about, image=usual.image)
                fleet.prepare(usual, ready)
            if opened is not None:
                opened.serve(fleet)
            _announce(fleet.about, returned, service.path, ports)
            ended.wait()
        finally:
            if opened is not None:
                opened.close()
            service.close()
    render.line("egress: all sandboxes are removed" if removes.is_set() else "egress: left the sandboxes")
    return 0


def _opened(
    source: FleetOptions,
    environ: Mapping[str, str],
    folder: Path,
    choose: Callable[[], RuntimeChoice],
    ports: UpPorts,
) -> AbstractContextManager[Fleet]:
    if read_kind(source.runtime, environ.get(RUNTIME_VARIABLE)) == KUBERNETES_KIND:
        refuse_own_proxy(
            rules=source.rules,
            audit_dir=source.audit_dir,
            seccomp=source.seccomp,
            options=source.proxy_options,
        )
        return open_cluster_fleet(environ, folder, keeps=True)
    return open_embedded(
        choose,
        environ,
        folder,
        source.rules,
        seccomp=source.seccomp,
        options=source.proxy_options,
        keeps=True,
        private_files=ports.private_files,
    )


def _names(fleet: SandboxFleet) -> list[str]:
    return [info.name for info in fleet.list()]


def _announce(about: FleetInfo, returned: list[str], socket: Path, ports: UpPorts) -> None:
    render.line(("egress is up: ", GOOD), about.line)
    if returned:
        render.line(f"  back: {', '.join(returned)}")
    render.line(f"  rules: {fleet_session.rule_files(about)}")
    if about.kind == "namespace":
        render.line("  its sandboxes end with it, however it ends; containers and pods are kept")
    render.line(f"  API: the unix socket {socket}", whole=True)
    if ports.api is not None:
        render.line(f"  API: {ports.api.url}, with the token in {ports.api.token_file}", whole=True)
    if ports.previews is not None:
        render.line(f"  previews: {ports.previews.url}", whole=True)
    render.line("  run something in a sandbox:")
    render.line("    ", ("egress run -- env", BOLD), whole=True)
    render.line("  list sandboxes, and stop everything:")
    render.line("    ", ("egress ps", BOLD), whole=True)
    render.line("    ", ("egress down", BOLD), whole=True)
    sys.stdout.flush()


# In a background process --------------------------------------------------------------------------


def _leave(
    source: FleetOptions,
    image: str | None,
    folder: Path,
    ready: int,
    state: Path,
    words: tuple[str, ...],
    ports: UpPorts,
) -> int:
    make_state_dir(state)
    log = state / _LOG
    # -P: import no module from the working directory.
    command = [sys.executable, "-P", "-m", "egress", "up", "--foreground"]
    command += [f"--runtime-dir={folder.absolute()}", f"--ready={ready}", *source.words, *words]
    command += [f"--image={image}"] if image else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    # Closed to others and never through a link: the log names hosts, files and sandboxes.
    with os.fdopen(os.open(log, flags, 0o600), "wb") as file:
        # A session of its own: closing this terminal must not end the sandboxes.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    # Findings in rules are printed after the last line of the progress, right above the error.
    with fleet_session.translate_errors(), progress.step("starting the proxy and its sandboxes"):
        about, returned = _awaited(process, folder / SOCKET_NAME, log)
    _announce(about, returned, folder / SOCKET_NAME, ports)
    return 0


def _awaited(process: subprocess.Popen[bytes], socket: Path, log: Path) -> tuple[FleetInfo, list[str]]:
    """Return the fleet's description once it answers, and its sandboxes.

    Raises `ProxyFailedError` if the process ended, and `FleetUnavailableError` if it takes too long.
    """
    shown = 0
    for _ in range(int(_START_TIMEOUT / _POLL_INTERVAL)):
        remote = connect_if_served(socket)
        if remote is not None:
            with remote:
                return remote.about, _names(remote)
        # Asked before the log is read: nothing is added to the log of a process that has ended.
        has_ended = process.poll() is not None
        shown = _pass_on(log, shown)
        if has_ended:
            raise _failure(log, process.returncode)
        time.sleep(_POLL_INTERVAL)
    # Not terminated: sandboxes of the last run may have come back already, and must not be removed.
    process.send_signal(fleet_session.LEAVE_SIGNAL)
    raise FleetUnavailableError("`egress up` did not start in time", f"check {log}")


def _failure(log: Path, status: int) -> ProxyFailedError:
    """Build the error of the background process from its log; findings in rules follow the message."""
    lines = log.read_text("utf-8", "replace")[-_MAX_SHOWN_CHARS:].splitlines()
    message = next((line[7:] for line in reversed(lines) if line.startswith("error: ")), "")
    hint = next((line[6:] for line in reversed(lines) if line.startswith("hint: ")), "")
    if not message:
        return ProxyFailedError("`egress up` did not start", hint or f"check {log}")
    findings = [line for line in lines if not line.startswith(("egress: ", "error: ", "hint: ", "{"))]
    return ProxyFailedError("\n".join([message, *findings]), hint or f"check {log}", status=status)


def _pass_on(log: Path, shown: int) -> int:
    """Print new progress lines of the log; return the number of lines seen."""
    lines = log.read_text("utf-8", "replace").splitlines()
    for line in lines[shown:]:
        if line.startswith("egress: "):
            fleet_session.say(line.removeprefix("egress: "))
    return len(lines)
