"""Authorities that outlive the process: one file a name, in a folder of the user's own.

For a proxy that a person's programs are pointed at again and again: they trust its certificate once.
The folder must be one that no sandbox is ever given a view of; that is for the caller to see to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from egress.ca import issue, keyfile
from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS
from egress.ca.keyfile import rotate_command
from egress.errors import ContentError, UnreadableError, UsageError, reason_of

PERSISTED_LIFETIME: Final = 365 * DAY_SECONDS
DEFAULT_NAME: Final = "default"

_NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")


class AuthorityStore:
    """The authorities in one folder. Nothing is made or read before it is asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """The file of an authority; raises `UsageError` for a name that cannot be one."""
        if not _NAME_PATTERN.fullmatch(name):
            raise UsageError(
                "this is no name for a certificate authority",
                "up to 63 lower-case letters, digits, dots, - and _; a letter or digit at both ends",
            )
        return self.directory / f"{name}.pem"

    def has(self, name: str) -> bool:
        """Whether there is a file of this name. Raises `UnreadableError` where that cannot be seen."""
        path = self.path(name)
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise UnreadableError(
                f"{path} cannot be looked at: {reason_of(error)}",
                "check who may enter its folders, or name another with --state-dir",
            ) from None
        return True

    def names(self) -> tuple[str, ...]:
        """The authorities there are, sorted."""
        found = (path.stem for path in self.directory.glob("*.pem"))
        return tuple(sorted(name for name in found if _NAME_PATTERN.fullmatch(name)))

    def load(self, name: str) -> Authority:
        """The authority of this name; raises what `Authority.load` raises."""
        return Authority.load(self.path(name))

    def open(
        self,
        name: str,
        now: int,
        constraints: Constraints | None = None,
        *,
        rules: Sequence[Path] = (),
        profile: str | None = None,
    ) -> Authority:
        """The authority of this name, made when there is none yet.

        `constraints` are those of a new one: one that is there keeps its own. `rules` and `profile` say where
        they come from, for hints. Raises `ContentError` when the authority has ended, and when constraints
        are asked for and it has none.
        """
        path = self.path(name)
        if not self.has(name):
            made = self._write(name, now, constraints, replace=False)
            if made is not None:
                return made
        authority = Authority.load(path)
        is_bound = constraints is not None or authority.constraints is not None
        cure = rotate_command(path, constrain=is_bound, rules=rules, profile=profile)
        if not authority.is_valid_at(now):
            raise ContentError(
                f"the certificate authority in {path} has ended, or the clock is wrong",
                f"make a new one with `{cure}`, and let clients trust that",
            )
        if constraints is not None and authority.constraints is None:
            raise ContentError(
                f"the certificate authority in {path} signs for every host, and is to be constrained",
                f"make a new one with `{cure}`, and let clients trust that",
            )
        return authority

    def rotate(self, name: str, now: int, constraints: Constraints | None = None) -> Authority:
        """Put a new authority with a new key in the place of the old one, which is gone then."""
        made = self._write(name, now, constraints, replace=True)
        if made is None:
            raise ContentError(f"the certificate authority {name} was not replaced", "try again")
        return made

    def _write(
        self, name: str, now: int, constraints: Constraints | None, *, replace: bool
    ) -> Authority | None:
        key = issue.new_key()
        certificate = issue.root_certificate(name, key, now, PERSISTED_LIFETIME, constraints)
        if not keyfile.write(self.path(name), key, certificate, replace=replace):
            return None
        return Authority(name, key, certificate)
