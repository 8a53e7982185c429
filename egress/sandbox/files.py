"""The files of a sandbox, read and written as its user."""

from __future__ import annotations

import secrets
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from posixpath import basename, dirname
from typing import BinaryIO, Final, Literal

from egress.runtime.spec import MIB, Command
from egress.sandbox import packing, unpacking
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import PathKindError
from egress.sandbox.options import as_input
from egress.sandbox.paths import (
    LONG_TIMEOUT,
    MISSING_STATUS,
    NO_FOLDER_STATUS,
    SHORT_TIMEOUT,
    TEMPORARY_PREFIX,
    Where,
    path_command,
    path_error,
    resolve,
    run_on_path,
    run_verb,
    split_root,
)
from egress.sandbox.watch import Change, watch_changes

Kind = Literal["file", "folder", "other"]
_MIN_TIMESTAMP: Final = int(datetime.min.replace(tzinfo=UTC).timestamp())
_MAX_TIMESTAMP: Final = int(datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp())
_BROKEN_PROGRAM_STATUS: Final = 1
"""The status of a program that does not do what it should."""
_MAX_READ_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """What is known of a file or a folder. Where the path is a link: of what it leads to."""

    kind: Kind
    size: int
    mode: int
    """Its permissions, such as 0o644."""
    modified: datetime
    is_link: bool = False

    @property
    def is_file(self) -> bool:
        return self.kind == "file"

    @property
    def is_folder(self) -> bool:
        return self.kind == "folder"


def _parse_stat(said: bytes) -> FileStat:
    """Read what a sandbox says. Raises `ValueError` where it is something else."""
    mode, size, seconds, *link = said.split()
    bits = int(mode, 16)
    kind: Kind = "file" if modes.S_ISREG(bits) else "folder" if modes.S_ISDIR(bits) else "other"
    # A file can be of a time that no calendar has: whoever owns it says of which.
    moment = min(max(int(seconds), _MIN_TIMESTAMP), _MAX_TIMESTAMP)
    return FileStat(
        kind=kind,
        size=int(size),
        mode=modes.S_IMODE(bits),
        modified=datetime.fromtimestamp(moment, UTC),
        is_link=bool(link),
    )


class Files:
    """The files of one sandbox. Relative paths begin in its workspace, and do not lead out of it.

    >>> sandbox.files.write("notes/today.txt", "hello")  # doctest: +SKIP
    """

    def __init__(self, place: CommandRunner) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"<Files of {self._place.name!r}>"

    def read(
        self, path: Where, *, most: int = _MAX_READ_BYTES, timeout: float | None = LONG_TIMEOUT
    ) -> bytes:
        r"""Return what a file holds. Raises `PathKindError` for one of more than `most` bytes.

        As everything here that takes `timeout`, it raises `ExecTimeoutError` after so many seconds; what does
        not take it does so after a minute.

        >>> sandbox.files.read("picture.png")[:4]  # doctest: +SKIP
        b'\x89PNG'
        """
        # One more than it may be, and not all there is: a file can grow while it is read.
        argv = path_command("read", path, str(most + 1))
        result = run_on_path(self._place, path, Command(argv=argv, most_output=most, timeout=timeout))
        if result.exit_code:
            raise path_error(result.exit_code, path, self._place.name)
        if result.truncated:
            raise PathKindError(f"{str(path)!r} holds more than {most} bytes", "take it with copy_out")
        return result.stdout

    def read_text(self, path: Where, *, encoding: str = "utf-8") -> str:
        """Return what a text file holds.

        >>> sandbox.files.read_text("notes/today.txt")  # doctest: +SKIP
        'hello'
        """
        return self.read(path).decode(encoding)

    def write(
        self,
        path: Where,
        data: str | bytes | BinaryIO,
        *,
        mode: int | None = None,
        timeout: float | None = LONG_TIMEOUT,
    ) -> None:
        """Write a file, all of it or none: whoever reads it sees the old one or the new one.

        The folders above it are made. Without `mode` it has that of the file that was there.

        >>> sandbox.files.write("run.sh", "echo hi", mode=0o755)  # doctest: +SKIP
        """
        permissions = "" if mode is None else f"{mode & 0o777:o}"
        more = (f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}", permissions)
        source = as_input(data)
        run_verb(self._place, "write", path, *more, source=b"" if source is None else source, timeout=timeout)

    def stat(self, path: Where) -> FileStat:
        """Return what is known of a file or a folder. Raises `PathNotFoundError`.

        >>> sandbox.files.stat("notes/today.txt").size  # doctest: +SKIP
        5
        """
        try:
            return _parse_stat(run_verb(self._place, "stat", path))
        except ValueError:
            raise path_error(_BROKEN_PROGRAM_STATUS, path, self._place.name) from None

    def exists(self, path: Where) -> bool:
        """Return whether there is a file or a folder. A link that leads nowhere is none.

        >>> sandbox.files.exists("notes")  # doctest: +SKIP
        True
        """
        status = run_on_path(
            self._place, path, Command(argv=path_command("exists", path), timeout=SHORT_TIMEOUT)
        ).exit_code
        if status not in (0, MISSING_STATUS, NO_FOLDER_STATUS):
            raise path_error(status, path, self._place.name)
        return status == 0

    def listdir(self, path: Where = ".") -> list[str]:
        """Return the names in a folder, in order, hidden ones too.

        >>> sandbox.files.listdir("notes")  # doctest: +SKIP
        ['today.txt']
        """
        names = run_verb(self._place, "list", path).decode("utf-8", "surrogateescape")
        return sorted(names.split("/")[:-1])

    def mkdir(self, path: Where, *, parents: bool = True) -> None:
        """Make a folder. With `parents` those above it too, and one that is there is all right.

        >>> sandbox.files.mkdir("a/b/c")  # doctest: +SKIP
        """
        run_verb(self._place, "mkdir", path, "parents" if parents else "")

    def remove(self, path: Where, *, recursive: bool = False, timeout: float | None = LONG_TIMEOUT) -> None:
        """Remove a file, a link or an empty folder; with `recursive` a folder with all that it holds.

        >>> sandbox.files.remove("a", recursive=True)  # doctest: +SKIP
        """
        run_verb(self._place, "remove", path, "recursive" if recursive else "", timeout=timeout)

    def rename(self, path: Where, new: Where) -> None:
        """Give a file or a folder another name. A file that has it is replaced, a folder is not.

        >>> sandbox.files.rename("draft.txt", "final.txt")  # doctest: +SKIP
        """
        run_verb(self._place, "rename", path, *split_root(new))

    def copy_in(self, source: str | Path, path: Where = ".") -> None:
        """Copy a file of the host to a path, or into a folder; or what a folder holds into a folder.

        Links in it that lead out of it are left out, and so is what is neither file nor folder.

        >>> sandbox.files.copy_in("src", "project/src")  # doctest: +SKIP
        """
        origin = Path(source)
        is_folder = origin.is_dir()
        if not is_folder and (str(path).endswith("/") or (self.exists(path) and self.stat(path).is_folder)):
            path = f"{path}/{origin.name}"
        target = resolve(self._place, path, make="all" if is_folder else "above")
        folder, name = (target, "") if is_folder else (dirname(target), basename(target))
        with packing.pack(origin, name) as archive:
            self._place.runtime.put(self._place.name, folder, archive)

    def copy_out(self, path: Where, target: str | Path) -> None:
        """Copy a file to a path of the host, or what a folder holds into a folder of the host.

        >>> sandbox.files.copy_out("dist", "build/dist")  # doctest: +SKIP
        """
        is_folder = self.stat(path).is_folder
        origin = resolve(self._place, path)
        with self._place.runtime.get(self._place.name, origin) as archive:
            if is_folder:
                unpacking.unpack_folder(archive, Path(target))
            else:
                unpacking.unpack_file(archive, Path(target))

    @contextmanager
    def watch(self, path: Where = ".", *, interval: float = 0.5) -> Iterator[Iterator[Change]]:
        """Watch a folder, or a file: what is made, changed or removed there from now on, at any depth.

        Ends with its context. A program in the sandbox looks there every `interval` seconds.

        >>> with sandbox.files.watch("src") as changes:  # doctest: +SKIP
        ...     print(next(changes))
        Change(kind='made', path='src/main.py')
        """
        with watch_changes(self._place, path, resolve(self._place, path), interval) as found:
            yield found
