"""Find the program of a `command:` secret, for the module that runs it and for the module that guards it.

Both must look in the same way: a program that is found in another way than it is guarded is not guarded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class ProgramLookup:
    """The programs of one user."""

    home: str
    """Working folder of a command: relative paths start here."""
    path: str
    """The folders searched for a bare name, absolute folders only."""

    @classmethod
    def of_environ(cls, environ: Mapping[str, str]) -> Self:
        return cls(home_dir(environ), absolute_only(environ.get("PATH", os.defpath)))

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the searched folders: write access to any of them decides which program runs."""
        return tuple(self.path.split(":")) if self.path else ()

    def expand_home(self, word: str) -> str:
        """Expand `~/` at the beginning of a program's word."""
        return f"{self.home}/{word[2:]}" if word.startswith("~/") else word

    def find(self, word: str) -> str | None:
        """Return the full path of a program; None if it is missing or depends on the working folder."""
        name = self.expand_home(word)
        # A relative path is refused: the working folder would decide which program it names.
        if not name or ("/" in name and not name.startswith("/")):
            return None
        return shutil.which(name, path=self.path)


def home_dir(environ: Mapping[str, str]) -> str:
    """Return the home of the user, or the root if it is unknown."""
    home = environ.get("HOME", "")
    return home if home.startswith("/") else "/"


def absolute_only(path: str) -> str:
    """Drop entries of `PATH` that depend on the folder in which the proxy was started."""
    return ":".join(folder for folder in path.split(":") if folder.startswith("/"))
