"""`egress ui`: show the audit log in a browser."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from pathlib import Path

import click

from egress.cli import folder_options, render, traffic_options
from egress.cli.log import locations
from egress.cli.render import DIM, GOOD
from egress.errors import UnreadableError, UsageError


@click.command(short_help="Show the audit log in a browser.")
@click.option(
    "--listen",
    default="127.0.0.1:8090",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Address to listen on.",
)
@click.option(
    "--socket", "path", type=folder_options.FILE, metavar="FILE", help="Listen on a unix socket instead."
)
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="Another host name of the page; may be repeated."
)
@click.option(
    "--rules", "-r", "files", multiple=True, type=folder_options.FILE, help="Rule file; may be repeated."
)
@click.option(
    "--key", type=folder_options.FILE, metavar="FILE", help="The key of the log, to check its chain."
)
@locations.of_index
def ui(
    listen: str,
    path: Path | None,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    key: Path | None,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
) -> int:
    """Show the audit log in a browser.

    Shows live requests, charts, the rules, and drafts of rules. Updates the index of the log, then prints a
    link with a login token, which is new at each start; the page on a unix socket needs no token, since only
    you can open it. The page is read-only. Needs the extra `ui`.

    \b
    Examples:
      egress ui
      egress ui --listen 127.0.0.1:0 --rules config/hosts.yaml
      egress ui --socket review.sock
    """
    try:
        from egress.ui import ChainWatch, IndexPool, LoginSession, RequestGuard, make
        from egress.ui.listen import listen_on_port, listen_on_socket, serve
    # The web stack is an extra, so plain installations lack it.
    except ModuleNotFoundError:
        # The page is an extra, since a proxy host should not carry a web framework.
        raise UnreadableError(
            "the review page is not installed", "in a checkout: `make setup`, or pip install '.[ui]'"
        ) from None
    host, number = address(listen)
    with locations.open_index(state_dir, directory, place) as index:
        log, at = index.directory, index.place
    pool = IndexPool(log, at)
    watch = ChainWatch(_check(state_dir, directory, key))
    with contextlib.suppress(UnreadableError):
        # Without any rules, the page reports that itself when it needs them.
        files = traffic_options.rules_at_hand(files)
    app = make(pool, watch, files, lambda: time.time_ns() // 1000)  # noqa: TID251 - a clock enters here
    if path is not None:
        sock = listen_on_socket(path)
        render.line(("open ", GOOD), f"{path}, such as with `ssh -L 8090:{path} HOST`", whole=True)
        render.finish()
        serve(RequestGuard(app, names), sock)
        path.unlink(missing_ok=True)
        return 0
    sock = listen_on_port(host, number)
    # 192 bits: any user of this machine can reach the port and try.
    token = secrets.token_urlsafe(24)
    shown = f"[{host}]" if ":" in host else host
    where = f"{names[0] if names else shown}:{sock.getsockname()[1]}"
    render.line(("open ", GOOD), f"http://{where}/login?token={token}", whole=True)
    render.line(("stop: ", DIM), "Ctrl-C", stderr=True)
    # Flushed before serving, or the link would stay in the buffer of a pipe.
    render.finish()
    serve(RequestGuard(app, (host, *names), LoginSession(token)), sock)
    return 0


def address(text: str) -> tuple[str, int]:
    """Read `127.0.0.1:8090`, `[::1]:8090` or a port alone. Raises `UsageError`."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise UsageError("--listen needs an address and port", "for example 127.0.0.1:8090")
    return host.strip("[]") or "127.0.0.1", int(port)


def _check(state_dir: Path | None, directory: Path | None, key: Path | None) -> list[str]:
    """Return the command that checks the chain: this same program.

    A reviewer may well run this in a folder that a sandbox wrote to, so nothing is imported from the working
    folder.
    """
    command = [sys.executable, "-P", "-m", "egress", "log", "verify", "--json"]
    for flag, value in (("--state-dir", state_dir), ("--dir", directory), ("--key", key)):
        command += [] if value is None else [flag, str(value.absolute())]
    return command
