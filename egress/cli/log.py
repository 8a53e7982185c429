"""`egress log`: the audit log, from outside of the proxy that writes it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import render, rulefiles
from egress.cli.render import BAD, DIM, GOOD, count
from egress.errors import UnreadableError

if TYPE_CHECKING:
    from egress.audit import Verified


@click.group()
def log() -> None:
    """Verify the audit log.

    \b
    Examples:
      egress log verify
    """


@log.command(short_help="Check that no line was changed, added or taken away.")
@click.option("--state-dir", type=rulefiles.FILE, metavar="FOLDER", help="That of `egress serve`.")
@click.option("--dir", "directory", type=rulefiles.FILE, metavar="DIR", help="The folder of the log.")
@click.option("--key", type=rulefiles.FILE, metavar="FILE", help="The key it was written with.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def verify(state_dir: Path | None, directory: Path | None, key: Path | None, as_json: bool) -> int:
    """Check that no line of the audit log was changed, added or taken away.

    It reads every file of the log and changes nothing; the proxy may run meanwhile. Without options it
    takes the folder and the key that `egress serve` would. Keep the number and the MAC that it prints in
    another place: a log that was put back to an older state as a whole is sound by itself.

    \b
    Examples:
      egress log verify
      egress log verify --state-dir /var/lib/egress
      egress log verify --dir /var/log/egress --key /etc/egress/audit.key
    """
    from egress.audit import verify as check

    folder, file = _places(state_dir, directory, key)
    known = _key(file, folder)
    try:
        found = check(folder, known)
    except UnreadableError as error:
        hint = f"{error.hint}; the key taken was {file}{_beside(folder, file)}"
        raise UnreadableError(error.message, hint) from None
    if as_json:
        render.data(_as_data(folder, found))
    else:
        _show(folder, found)
    return int(not found.is_sound)


def _places(state_dir: Path | None, directory: Path | None, key: Path | None) -> tuple[Path, Path]:
    """Where the log and its key are: as given, or where `egress serve` keeps them."""
    if directory is not None and key is not None:
        return directory, key
    from egress.proxy import settings

    values = settings.read({} if state_dir is None else {"state_dir": state_dir}).values
    return directory or values.audit_dir, key or values.audit_key or values.state_dir / "audit.key"


def _key(file: Path, folder: Path) -> bytes:
    from egress.audit import key

    try:
        return key.read(file)
    except FileNotFoundError:
        hint = f"name it with --key, or its folder with --state-dir{_beside(folder, file)}"
        raise UnreadableError(f"there is no key {file}", hint) from None


def _beside(folder: Path, file: Path) -> str:
    """Another key that lies where that of this log would be."""
    beside = folder.parent / "audit.key"
    return f"; beside the log lies {beside}" if beside != file and beside.exists() else ""


def _show(folder: Path, found: Verified) -> None:
    for fault in found.faults:
        render.line((f"{fault}", BAD))
        render.line(("  hint: ", DIM), fault.hint)
    what = f"{count(found.lines, 'line')} in {count(found.files, 'file')}"
    if found.unfinished:
        more = count(found.unfinished, "line")
        render.line(f"{more} announced and not there: the proxy was killed, or is writing just now")
    if found.is_sound:
        render.line(("ok ", GOOD), f"{folder}: {what}")
        render.line(("newest: ", DIM), f"{found.newest} {found.mac}")
    else:
        render.line((count(len(found.faults), "fault"), BAD), f" in {folder}: {what}")


def _as_data(folder: Path, found: Verified) -> dict[str, object]:
    faults = [{**asdict(fault), "hint": fault.hint} for fault in found.faults]
    return {"ok": found.is_sound, "directory": str(folder), **asdict(found), "faults": faults}
