"""Remember the rule files a user trusts, by path and by the digest of their text.

A file in the working directory may come from a hostile repository, and a rule file can name commands that
fetch a secret. So it is ignored until the user trusts it, and again after every change. Reading is up to
`egress.policy.rule_file_reader`; this module never prompts.

Every doubt is an error, never an empty answer that could pass for "no objections".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from egress.errors import ContentError, UnreadableError, reason_of
from egress.policy.rule_file_reader import printable_path, read_text
from egress.private_file import FOLDER_MODE, read_private, write_atomically

TRUST_FILE_NAME = "trusted.json"
_FORMAT_VERSION = 1
_MAX_FILE_BYTES = 4 * 1024 * 1024


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
            return _parsed(
                self.file, read_private(self.file, _MAX_FILE_BYTES, "look into it, then remove it")
            )
        except FileNotFoundError:
            return {}

    def check(self, path: Path, text: str) -> None:
        """Raise `UntrustedError` unless exactly this text of this file is trusted."""
        # Read for each check, so that a withdrawn trust takes effect at once.
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

    def _write(self, known: Mapping[str, str]) -> None:
        content = {"version": _FORMAT_VERSION, "files": dict(sorted(known.items()))}
        try:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            write_atomically(self.file, json.dumps(content, indent=2).encode(), replace=True)
        except OSError as error:
            raise UnreadableError(
                f"{printable_path(self.file)} cannot be written: {reason_of(error)}",
                "check the folder, or name another with --state-dir",
            ) from None


def _key(path: Path) -> str:
    """Return the absolute path with all links followed: a link to another place is another file."""
    return str(path.resolve())


def _parsed(file: Path, text: bytes) -> dict[str, str]:
    try:
        content = json.loads(text)
        # Any other version is refused: its meaning is unknown.
        files = content["files"] if content["version"] == _FORMAT_VERSION else None
        if isinstance(files, dict) and all(isinstance(value, str) for value in files.values()):
            return files
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    # A damaged list is not an empty list: the next write would forget every trusted file.
    raise UnreadableError(f"{printable_path(file)} is damaged", "remove it, then trust your files again")
