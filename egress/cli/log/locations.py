"""Locate a log, its key and its index: as given, or as `egress serve` keeps them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress import environment
from egress.cli import folder_options, progress, render
from egress.cli.render import DOUBT, count
from egress.errors import UnreadableError

if TYPE_CHECKING:
    from egress.review import Index, IndexState

type Command = Callable[..., int]


def of_log(command: Command, *aliases: str) -> Command:
    """Add the options for the log's folder; `aliases` are further names of the option."""
    names = ("--dir", *aliases, "directory")
    command = click.option(*names, type=folder_options.FILE, metavar="DIR", help="The folder of the log.")(
        command
    )
    return folder_options.state_dir(command)


def of_index(command: Command, *aliases: str) -> Command:
    """Add the options for the log's folder and its index; `aliases` as for `of_log`."""
    option = click.option(
        "--index",
        "place",
        type=folder_options.FILE,
        metavar="FILE",
        help="The index file. [beside the log]",
    )
    return of_log(option(command), *aliases)


def folder(state_dir: Path | None, directory: Path | None) -> Path:
    """Return the folder of the log."""
    # Settings are only read if needed: a foreign log must not depend on the local ones.
    return directory or _settings(state_dir)[0]


def folder_and_key(state_dir: Path | None, directory: Path | None, key: Path | None) -> tuple[Path, Path]:
    """Return the folder of the log, and the file of its key."""
    # Both given: the settings, which may be invalid, are not needed.
    if directory is not None and key is not None:
        return directory, key
    kept, kept_key = _settings(state_dir)
    return directory or kept, key or kept_key


def _settings(state_dir: Path | None) -> tuple[Path, Path]:
    from egress.proxy import settings as process

    values = process.read({} if state_dir is None else {"state_dir": state_dir}).values
    return values.audit_dir, values.audit_key or values.state_dir / "audit.key"


def read_key(file: Path, log: Path) -> bytes:
    """Read the key of the log. Raises `UnreadableError`."""
    from egress.audit import key

    try:
        return key.read(file)
    except FileNotFoundError:
        hint = f"name it with --key, or its folder with --state-dir{beside(log, file)}"
        raise UnreadableError(f"key not found: {file}", hint) from None


def beside(log: Path, file: Path) -> str:
    """Mention another key at the usual place of this log's key."""
    found = log.parent / "audit.key"
    return f"; a key exists beside the log: {found}" if found != file and found.exists() else ""


# The index --------------------------------------------------------------------------------------


def open_index(state_dir: Path | None, directory: Path | None, place: Path | None) -> Index:
    """Return the index of the log, brought up to date. Prints notes about its state."""
    from egress.review import Index

    where = folder(state_dir, directory)
    index = Index(where, place or own_index_path(where))
    with progress.step("reading the log") as step:
        state = index.catch_up(lambda done, total: step.stage(_share(done, total)))
    tell(state)
    return index


def _share(done: int, total: int) -> str:
    return f"{done * 100 // total if total else 100} % of {total / 1_000_000:.0f} MB"


def own_index_path(log: Path) -> Path | None:
    """Return a place for the index in the user's state folder, if the log's folder is not writable."""
    if not log.is_dir() or os.access(log, os.W_OK):
        return None
    # Hashed, so that logs in folders of the same name keep separate indexes.
    name = hashlib.sha256(os.fsencode(log.resolve())).hexdigest()[:16]
    own = environment.state_dir(environment.read_environment()) / "review"
    # Closed to others: an index holds all that the log holds.
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own / f"{name}.sqlite3"


def tell(state: IndexState) -> None:
    """Print notes about the completeness of the following answer."""
    if state.trouble:
        behind = f"{state.behind} bytes of the log are not in the index yet"
        render.line(("note: ", DOUBT), f"{behind}: {state.trouble}", stderr=True)
    if state.odd:
        kinds = ", ".join(f"{number} {kind}" for kind, number in state.odd)
        places = count(sum(number for _, number in state.odd), "place")
        render.line(("note: ", DOUBT), f"no lines of the log in {places}: {kinds}", stderr=True)
    if state.unknown:
        kinds = count(state.unknown, "kind")
        render.line(("note: ", DOUBT), f"a later version wrote {kinds} of lines in it", stderr=True)
