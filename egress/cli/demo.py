"""`egress demo`: servers to try Egress with, on this machine."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress.cli import atomic_write, folder_options, render
from egress.cli.render import BOLD, DIM, GOOD
from egress.errors import UnreadableError, reason_of

if TYPE_CHECKING:
    from types import FrameType

_CA_FILE: Final = "demo-ca.pem"
_PORT: Final = 8443


@click.group()
def demo() -> None:
    """Try Egress without an account: servers that stand in for real ones.

    \b
    Examples:
      egress demo api
    """


@demo.command(short_help="Serve a stand-in for an API that wants a token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="Port to listen on."
)
@click.option(
    "--out",
    type=folder_options.FILE,
    default=Path(_CA_FILE),
    show_default=True,
    metavar="FILE",
    help="File for the certificate of its authority.",
)
def api(port: int, out: Path) -> int:
    """Serve a stand-in for an API, on loopback, until Ctrl-C.

    It is called api.example.com, wants an Authorization header, and repeats the header it received, as
    careless APIs do. Each request is printed.

    \b
    Examples:
      egress demo api
      egress demo api --port 9443 --out /tmp/demo-ca.pem
    """
    from egress.cli.stand_in_api import NAME, StandInApi

    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        server = StandInApi(port, told=_tell)
    except OSError as error:
        raise UnreadableError(f"--port {port}: {reason_of(error)}", "name another port") from None
    with server:
        atomic_write.write(out, server.certificate, replace=_is_certificate(out), option="--out")
        render.line((f"{NAME} is played here: ", GOOD), f"127.0.0.1:{server.port}, until Ctrl-C")
        render.line("  reach it through a proxy that is started with:")
        render.line("    ", (f'export EGRESS_UPSTREAM_CA="{out.absolute()}"', BOLD), whole=True)
        render.line("    ", (f"export EGRESS_RESOLVE={NAME}=127.0.0.1", BOLD), whole=True)
        sys.stdout.flush()
        ended.wait()
    return 0


def _is_certificate(path: Path) -> bool:
    """Return whether a file holds a certificate, as an earlier run writes it: nothing else is replaced."""
    try:
        return path.read_bytes()[:64].startswith(b"-----BEGIN CERTIFICATE-----")
    except OSError:
        return False


def _tell(request: str, credential: str) -> None:
    """Print a request. Not its credential: somebody may try it with a real one."""
    scheme, _, value = credential.partition(" ")
    said = f"{scheme} and {len(value)} characters" if value else "no credential"
    render.line((request, BOLD), (f"  {said}", DIM))
    sys.stdout.flush()
