"""`egress env`: commands that point a terminal at a running proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress import environment
from egress.cli import folder_options, render
from egress.cli.control_client import ask_proxy
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.private_file import write_atomically

if TYPE_CHECKING:
    from egress.runtime.kit.shell_exports import ShellKind
    from egress.runtime.proxy_address import ProxyAddress

_FILES_FOLDER: Final = "client"
_FILE_MODE: Final = 0o644
"""Readable by all: the files hold no secret, and their folder may be closed."""
_LOOPBACK: Final = {4: "127.0.0.1", 6: "::1"}


@click.command("env")
@folder_options.state_dir
@folder_options.runtime_dir
@click.option(
    "--sandbox", default="default", metavar="NAME", help="The sandbox, as named for `egress serve`."
)
@click.option("--shell", type=click.Choice(("posix", "fish")), help="Kind of the shell. [the one that asks]")
@click.option("--out", type=folder_options.FILE, metavar="FOLDER", help="Folder of the files. [state folder]")
@click.option(
    "--password-file",
    type=folder_options.FILE,
    metavar="FILE",
    help="A file with the password of the proxy; the commands read it.",
)
@click.option("--unset", "is_end", is_flag=True, help="Print the commands that remove the variables.")
def env(
    state_dir: Path | None,
    runtime_dir: Path | None,
    sandbox: str,
    shell: ShellKind | None,
    out: Path | None,
    password_file: Path | None,
    is_end: bool,
) -> int:
    """Print the variables that point a terminal at a running proxy.

    Programs of that terminal then use the proxy and trust its certificate, and variables of other proxies and
    certificates are removed. The certificates are written to the state folder.

    \b
    Examples:
      eval "$(egress env)"
      egress env --shell fish
      eval "$(egress env --unset)"
    """
    from egress.runtime.kit import shell_exports
    from egress.runtime.kit.kit import make_kit

    environ = folder_options.with_state_dir(state_dir)
    state = environment.state_dir(environ)
    folder = (out or state / _FILES_FOLDER / sandbox).absolute()
    kind = shell or shell_exports.shell_kind(_calling_program())
    proxy, fingerprint = _running(runtime_dir or folder_options.runtime_dir_in(state_dir), sandbox)
    certificate = _certificate(state, sandbox, fingerprint)
    kit = make_kit(certificate, _public_roots(), proxy, folder=_plain(folder))
    if is_end:
        render.text("".join(f"{line}\n" for line in shell_exports.unset_commands(kit.variables, kind)))
        return 0
    _write({Path(path): file.content for path, file in kit.files.items()})
    password = None if password_file is None else str(password_file.absolute())
    commands = shell_exports.set_commands(kit.variables, proxy.url, kind, password)
    render.text("".join(f"{line}\n" for line in commands))
    return 0


def _calling_program() -> str:
    """Return the name of the program that started this one: a shell, maybe another than that of the login."""
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _write(files: Mapping[Path, bytes]) -> None:
    try:
        for place, content in files.items():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In one step, because programs of another terminal may read the file just now.
            write_atomically(place, content, _FILE_MODE, replace=True)
    except OSError as error:
        raise UnreadableError(
            f"the files cannot be written: {reason_of(error)}", "name another folder with --out"
        ) from None


def _running(folder: Path | None, name: str) -> tuple[ProxyAddress, str]:
    """Return where the proxy listens for a sandbox, and the fingerprint of the authority it signs with."""
    from egress.runtime.proxy_address import ProxyAddress

    status, answer = ask_proxy("GET", "/status", None, folder)
    if status != 200:
        raise UnreadableError("the proxy is still starting", "try again in a moment")
    boxes = answer.get("sandboxes")
    named = [box for box in boxes if isinstance(box, dict)] if isinstance(boxes, list) else []
    found = next((box for box in named if box.get("name") == name), {})
    listeners = found.get("listeners")
    if not isinstance(listeners, list) or not listeners:
        raise ContentError(
            f"the proxy has no listener for a sandbox {name}",
            "`egress status` lists its sandboxes: name one with --sandbox",
        )
    host, _, port = str(listeners[0]).rpartition(":")
    address = ip_address(host.strip("[]"))
    # A terminal of this machine cannot dial the address that stands for all of its addresses.
    shown = _LOOPBACK[address.version] if address.is_unspecified else str(address)
    return ProxyAddress(shown, int(port)), str(found.get("authority"))


def _certificate(state: Path, sandbox: str, fingerprint: str) -> bytes:
    from egress.ca import AuthorityStore

    store = AuthorityStore(state / "ca")
    authority = store.load(sandbox) if store.has(sandbox) else None
    # Another certificate would make every program fail, with errors that do not name the reason.
    if authority is None or authority.fingerprint != fingerprint:
        raise ContentError(
            f"the running proxy signs with another certificate than the one in {store.directory}",
            "name the state folder of that proxy with --state-dir",
        )
    return authority.certificate_pem


def _public_roots() -> bytes:
    from egress.ca.bundle import public_roots

    return public_roots()


def _plain(folder: Path) -> str:
    from egress.runtime.kit.paths import KitPaths

    try:
        return KitPaths(str(folder)).path
    except UsageError:
        raise UsageError(
            f"{folder} cannot be written into every settings file",
            "name a folder of letters, digits, dots, - and _ with --out",
        ) from None
