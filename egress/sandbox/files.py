"""Reads and writes files of a sandbox, as its user."""

from __future__ import annotations

import re
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
_STAT_FORMS: Final = tuple(map(re.compile, (rb"[0-9a-fA-F]{1,8}", rb"[0-9]{1,19}", rb"-?[0-9]{1,20}")))
"""The mode, the size and the seconds of a file, as `stat` writes them."""
_BROKEN_PROGRAM_STATUS: Final = 1
"""The exit status of a program that does not work as expected."""
_MAX_READ_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """Facts about a file or a folder; for a link, about its target."""

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


def parse_stat(said: bytes) -> FileStat:
    """Parse the output of `stat` in a sandbox. Raises `ValueError` for unexpected output."""
    mode, size, seconds, *link = said.split()
    # A program in the sandbox may have written it: numbers that no file has are none.
    if not all(form.fullmatch(text) for form, text in zip(_STAT_FORMS, (mode, size, seconds), strict=True)):
        raise ValueError("not the facts of a file")
    bits = int(mode, 16)
    kind: Kind = "file" if modes.S_ISREG(bits) else "folder" if modes.S_ISDIR(bits) else "other"
    # Clamped: the owner of a file can set a time outside of Python's calendar.
    moment = min(max(int(seconds), _MIN_TIMESTAMP), _MAX_TIMESTAMP)
    return FileStat(
        kind=kind,
        size=int(size),
        mode=modes.S_IMODE(bits),
        modified=datetime.fromtimestamp(moment, UTC),
        is_link=bool(link) or modes.S_ISLNK(bits),
    )


class Files:
    """The files of one sandbox. Relative paths start in its workspace, and cannot lead out of it.

    >>> sandbox.files.write("notes/today.txt", "hello")  # doctest: +SKIP
    """

    def __init__(self, place: CommandRunner) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"<Files of {self._place.name!r}>"

    def read(
        self, path: Where, *, most: int = _MAX_READ_BYTES, timeout: float | None = LONG_TIMEOUT
    ) -> bytes:
        r"""Return the content of a file. Raises `PathKindError` if it is larger than `most` bytes.

        Methods with a `timeout` raise `ExecTimeoutError` after that many seconds; methods without one, after
        a minute.

        >>> sandbox.files.read("picture.png")[:4]  # doctest: +SKIP
        b'\x89PNG'
        """
        # A byte more than allowed, instead of a size check: a file can grow while it is read.
        argv = path_command("read", path, str(most + 1))
        result = run_on_path(self._place, path, Command(argv=argv, most_output=most, timeout=timeout))
        if result.exit_code:
            raise path_error(result.exit_code, path, self._place.name)
        if result.truncated:
            raise PathKindError(f"{str(path)!r} is larger than {most} bytes", "use copy_out")
        return result.stdout_bytes

    def read_text(self, path: Where, *, encoding: str = "utf-8") -> str:
        """Return the content of a text file.

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
        """Write a file atomically: readers see either the old content or the new.

        Missing folders above it are created. Without `mode`, an existing file keeps its permissions.

        >>> sandbox.files.write("run.sh", "echo hi", mode=0o755)  # doctest: +SKIP
        """
        permissions = "" if mode is None else f"{mode & 0o777:o}"
        # Written under a random name first, and renamed: a reader never sees half of a file.
        more = (f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}", permissions)
        source = as_input(data)
        run_verb(self._place, "write", path, *more, source=b"" if source is None else source, timeout=timeout)

    def stat(self, path: Where) -> FileStat:
        """Return facts about a file or a folder. Raises `PathNotFoundError`.

        >>> sandbox.files.stat("notes/today.txt").size  # doctest: +SKIP
        5
        """
        try:
            return parse_stat(run_verb(self._place, "stat", path))
        except ValueError:
            raise path_error(_BROKEN_PROGRAM_STATUS, path, self._place.name) from None

    def exists(self, path: Where) -> bool:
        """Return whether a file or a folder exists. A dangling link does not.

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
        """Return the names in a folder, sorted, hidden ones included.

        >>> sandbox.files.listdir("notes")  # doctest: +SKIP
        ['today.txt']
        """
        names = run_verb(self._place, "list", path).decode("utf-8", "surrogateescape")
        return sorted(names.split("/")[:-1])

    def mkdir(self, path: Where, *, parents: bool = True) -> None:
        """Create a folder. With `parents`, folders above it too, and an existing folder is no error.

        >>> sandbox.files.mkdir("a/b/c")  # doctest: +SKIP
        """
        run_verb(self._place, "mkdir", path, "parents" if parents else "")

    def remove(self, path: Where, *, recursive: bool = False, timeout: float | None = LONG_TIMEOUT) -> None:
        """Remove a file, a link or an empty folder; with `recursive`, a folder with its content.

        >>> sandbox.files.remove("a", recursive=True)  # doctest: +SKIP
        """
        run_verb(self._place, "remove", path, "recursive" if recursive else "", timeout=timeout)

    def rename(self, path: Where, new: Where) -> None:
        """Rename a file or a folder. An existing file of the new name is replaced, a folder is not.

        >>> sandbox.files.rename("draft.txt", "final.txt")  # doctest: +SKIP
        """
        run_verb(self._place, "rename", path, *split_root(new))

    def copy_in(self, source: str | Path, path: Where = ".") -> None:
        """Copy a file of the host to a path or into a folder, or a folder's content into a folder.

        Links that lead out of the source are left out, and so are devices, pipes and sockets.

        >>> sandbox.files.copy_in("src", "project/src")  # doctest: +SKIP
        """
        origin = Path(source)
        is_folder = origin.is_dir()
        # Like cp: a file goes into an existing folder under its own name.
        if not is_folder and (str(path).endswith("/") or (self.exists(path) and self.stat(path).is_folder)):
            path = f"{path}/{origin.name}"
        # Resolved inside the sandbox: only its user's rights decide where the copy lands.
        target = resolve(self._place, path, make="all" if is_folder else "above")
        folder, name = (target, "") if is_folder else (dirname(target), basename(target))
        with packing.pack(origin, name) as archive:
            self._place.runtime.put(self._place.name, folder, archive)

    def copy_out(self, path: Where, target: str | Path) -> None:
        """Copy a file to a path of the host, or a folder's content into a folder of the host.

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
        """Watch a folder or a file for changes from now on, at any depth.

        Watching ends with the context. A program in the sandbox looks when the kernel tells it of a change.
        In images without Python 3, and on file systems that others write to, it does so every `interval`.

        >>> with sandbox.files.watch("src") as changes:  # doctest: +SKIP
        ...     print(next(changes))
        Change(kind='made', path='src/main.py')
        """
        with watch_changes(self._place, path, resolve(self._place, path), interval) as found:
            yield found
