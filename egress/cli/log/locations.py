"""Where a log, its key and its index are: as given, or where `egress serve` keeps them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress import environment
from egress.cli import render, rulefiles
from egress.cli.render import DOUBT, count
from egress.errors import UnreadableError

if TYPE_CHECKING:
    from egress.review import Index, IndexState

type Command = Callable[..., int]

LARGE_LOG_BYTES = 64 * 1024 * 1024
"""Bytes whose reading is worth a word."""


def of_log(command: Command, *aliases: str) -> Command:
    """The options that say where the log is; `aliases` are other names of its folder."""
    names = ("--dir", *aliases, "directory")
    command = click.option(*names, type=rulefiles.FILE, metavar="DIR", help="The folder of the log.")(command)
    return click.option("--state-dir", type=rulefiles.FILE, metavar="FOLDER", help="That of `egress serve`.")(
        command
    )


def of_index(command: Command, *aliases: str) -> Command:
    """The options that say where the log and its index are; `aliases` as for `of_log`."""
    option = click.option(
        "--index",
        "place",
        type=rulefiles.FILE,
        metavar="FILE",
        help="The index; beside the log when left out.",
    )
    return of_log(option(command), *aliases)


def folder(state_dir: Path | None, directory: Path | None) -> Path:
    """The folder of the log."""
    return directory or _settings(state_dir)[0]


def folder_and_key(state_dir: Path | None, directory: Path | None, key: Path | None) -> tuple[Path, Path]:
    """The folder of the log, and the file of its key."""
    if directory is not None and key is not None:
        return directory, key
    kept, kept_key = _settings(state_dir)
    return directory or kept, key or kept_key


def _settings(state_dir: Path | None) -> tuple[Path, Path]:
    from egress.proxy import settings as process

    values = process.read({} if state_dir is None else {"state_dir": state_dir}).values
    return values.audit_dir, values.audit_key or values.state_dir / "audit.key"


def read_key(file: Path, log: Path) -> bytes:
    """The key of the log. Raises `UnreadableError`."""
    from egress.audit import key

    try:
        return key.read(file)
    except FileNotFoundError:
        hint = f"name it with --key, or its folder with --state-dir{beside(log, file)}"
        raise UnreadableError(f"there is no key {file}", hint) from None


def beside(log: Path, file: Path) -> str:
    """Another key that lies where that of this log would be."""
    found = log.parent / "audit.key"
    return f"; beside the log lies {found}" if found != file and found.exists() else ""


# The index --------------------------------------------------------------------------------------


def open_index(state_dir: Path | None, directory: Path | None, place: Path | None) -> Index:
    """The index of the log, brought up to it. Says what is to be said about that."""
    from egress.review import Index

    where = folder(state_dir, directory)
    index = Index(where, place or own_index_path(where))
    tell(index.catch_up(_Progress()))
    return index


def own_index_path(log: Path) -> Path | None:
    """A place for the index of the user's own, for a log whose folder is not theirs to write to."""
    if not log.is_dir() or os.access(log, os.W_OK):
        return None
    name = hashlib.sha256(os.fsencode(log.resolve())).hexdigest()[:16]
    own = environment.state_dir(environment.read_environment()) / "review"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own / f"{name}.sqlite3"


def tell(state: IndexState) -> None:
    """What a reader should know of what is shown, beside the answer itself."""
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


class _Progress:
    """Says now and then how far a large log is read."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        share = done * 10 // total if total else 10
        if total >= LARGE_LOG_BYTES and self._told < share < 10:
            self._told = share
            render.line(("reading: ", DOUBT), f"{share}0 % of {total // 1_000_000} MB", stderr=True)
