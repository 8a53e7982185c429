"""Lists a folder of a sandbox with facts about each entry, by one command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.spec import Command
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import FolderTooLargeError
from egress.sandbox.files import FileStat, parse_stat
from egress.sandbox.paths import SHORT_TIMEOUT, Where, path_command, path_error, run_on_path

MAX_ENTRIES: Final = 10_000
_MAX_ENTRY_BYTES: Final = 320
"""A name has at most 255 bytes, and the facts at most some 60."""
_UNREADABLE_STATUS: Final = 1


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder. The facts of a link are its own, not those of its target."""

    name: str
    facts: FileStat


def list_folder(place: CommandRunner, path: Where, most: int = MAX_ENTRIES) -> list[FolderEntry]:
    """Return the entries by name. Raises `FolderTooLargeError` for a folder with more than `most` of them."""
    limit = most * _MAX_ENTRY_BYTES
    argv = path_command("entries", path, str(limit + 1))
    result = run_on_path(place, path, Command(argv=argv, most_output=limit, timeout=SHORT_TIMEOUT))
    if result.exit_code:
        raise path_error(result.exit_code, path, place.name)
    entries = result.stdout_bytes.split(b"/\n")
    if result.truncated or len(entries) - 1 > most:
        raise FolderTooLargeError(
            f"{str(path)!r} has more than {most} entries", "list it by a command such as `ls`"
        )
    try:
        return sorted((_parse_entry(each) for each in entries[:-1]), key=lambda entry: entry.name)
    except ValueError:
        raise path_error(_UNREADABLE_STATUS, path, place.name) from None


def _parse_entry(said: bytes) -> FolderEntry:
    """Parse an entry of the list. Raises `ValueError` for unexpected output."""
    facts, mark, name = said.partition(b" ./")
    if not mark or not name or b"/" in name or len(facts.split()) != 3:
        raise ValueError("not an entry")
    return FolderEntry(name.decode("utf-8", "surrogateescape"), parse_stat(facts))
