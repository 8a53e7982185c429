"""Where the program of a `command:` secret is found, for whoever runs it and for whoever guards it.

The words of a command are read in one place: a program that is looked for in another way than it is guarded
is not guarded.
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
    """Where a command runs: what its words leave open is meant from here."""
    path: str
    """The folders that are searched for a bare name, absolute ones only."""

    @classmethod
    def of_environ(cls, environ: Mapping[str, str]) -> Self:
        return cls(home_dir(environ), absolute_only(environ.get("PATH", os.defpath)))

    @property
    def folders(self) -> tuple[str, ...]:
        """Whoever writes one of these decides what runs."""
        return tuple(self.path.split(":")) if self.path else ()

    def expand_home(self, word: str) -> str:
        """The word for a program, with its `~/` written out."""
        return f"{self.home}/{word[2:]}" if word.startswith("~/") else word

    def find(self, word: str) -> str | None:
        """The full path of a program; None for what is not there, or depends on the working folder."""
        name = self.expand_home(word)
        if not name or ("/" in name and not name.startswith("/")):
            return None
        return shutil.which(name, path=self.path)


def home_dir(environ: Mapping[str, str]) -> str:
    """The home of the user, or the root when there is none that is known."""
    home = environ.get("HOME", "")
    return home if home.startswith("/") else "/"


def absolute_only(path: str) -> str:
    """`PATH` without what depends on the folder the proxy was started in."""
    return ":".join(folder for folder in path.split(":") if folder.startswith("/"))
