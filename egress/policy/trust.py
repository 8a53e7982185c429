"""Remember the rule files a user trusts, by path and by the digest of their text.

A file in the working directory may come from a hostile repository, and a rule file can name commands that
fetch a secret. So it is ignored until the user trusts it, and again after every change. Reading is up to
`egress.policy.rule_file_reader`; this module never prompts.

Every doubt is an error, never an empty answer that could pass for "no objections".
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from egress.errors import ContentError, UnreadableError
from egress.policy.rule_file_reader import printable_path, read_text, unreadable_error

TRUST_FILE_NAME = "trusted.json"
_FORMAT_VERSION = 1
_MAX_FILE_BYTES = 4 * 1024 * 1024
_OTHERS_BITS = stat.S_IRWXG | stat.S_IRWXO
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class UntrustedError(ContentError):
    """A rule file was found that the user has not trusted."""

    code = "untrusted"


def text_digest(text: str) -> str:
    """Return the SHA-256 of a rule file's text: equal to `sha256sum` for a file without a byte order mark."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class TrustedFiles:
    """The list of trusted files, kept in the state folder of the user."""

    folder: Path

    def add(self, path: Path) -> str:
        """Trust the file as it is now, and return its digest. Raises like `read_text`."""
        made = text_digest(read_text(path))
        self._write({**self.all(), _key(path): made})
        return made

    def forget(self, path: Path) -> bool:
        """Stop trusting the file; report whether it was trusted."""
        known = dict(self.all())
        was_there = known.pop(_key(path), None) is not None
        if was_there:
            self._write(known)
        return was_there

    def all(self) -> Mapping[str, str]:
        """Return the digest of every trusted file by its absolute path."""
        try:
            return self._read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise unreadable_error(self.file, error) from None

    def check(self, path: Path, text: str) -> None:
        """Raise `UntrustedError` unless exactly this text of this file is trusted."""
        known = self.all().get(_key(path))
        name = printable_path(path)
        cure = f"read it, then run `egress trust {name}`"
        if known is None:
            raise UntrustedError(
                f"{name} was found here but is not trusted", f"{cure}; or name it with --rules"
            )
        if known != text_digest(text):
            raise UntrustedError(f"{name} has changed since it was trusted", cure)

    # The file

    @property
    def file(self) -> Path:
        """Return the file of the list."""
        return self.folder / TRUST_FILE_NAME

    def _read(self) -> dict[str, str]:
        with os.fdopen(os.open(self.file, _OPEN_FLAGS)) as file:
            status = os.fstat(file.fileno())
            if (
                not stat.S_ISREG(status.st_mode)
                or status.st_uid != os.geteuid()
                or status.st_mode & _OTHERS_BITS
            ):
                raise UnreadableError(
                    f"{printable_path(self.file)} could have been written by another user",
                    "it must be your own file with mode 0600: inspect it, then remove it",
                )
            return _parsed(self.file, file.read(_MAX_FILE_BYTES))

    def _write(self, known: Mapping[str, str]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp creates the file with mode 0600; the rename makes the change atomic.
            handle, name = tempfile.mkstemp(prefix=".trusted-", dir=self.folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(
                        {"version": _FORMAT_VERSION, "files": dict(sorted(known.items()))}, file, indent=2
                    )
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(self.file)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UnreadableError(
                f"{printable_path(self.file)} cannot be written: {reason}",
                "check the folder, or name another with --state-dir",
            ) from None


def _key(path: Path) -> str:
    """Return the absolute path with all links followed: a link to another place is another file."""
    return str(path.resolve())


def _parsed(file: Path, text: str) -> dict[str, str]:
    try:
        content = json.loads(text)
        files = content["files"] if content["version"] == _FORMAT_VERSION else None
        if isinstance(files, dict) and all(isinstance(value, str) for value in files.values()):
            return files
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise UnreadableError(f"{printable_path(file)} is damaged", "remove it, then trust your files again")
