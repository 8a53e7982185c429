"""Authorities that outlive the process: a file for each, in a folder of the user.

For a proxy that a person's programs use again and again: they trust its certificate once. The folder must
never be visible to a sandbox; the caller ensures that.
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

_NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")


def new_authority_file(name: str, now: int) -> bytes:
    """Return the content of a file with a new authority, for a store that is not a folder of this machine."""
    key = issue.new_key()
    return keyfile.as_pem(key, issue.root_certificate(name, key, now, PERSISTED_LIFETIME))


class AuthorityStore:
    """The authorities in one folder. Files are only read or written on request."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """Return the file of an authority; raises `UsageError` for an invalid name."""
        # The name becomes a file name, so it must not lead out of the folder.
        if not _NAME_PATTERN.fullmatch(name):
            raise UsageError(
                "invalid name of a certificate authority",
                "use up to 63 lower-case letters, digits, dots, - and _, with a letter or digit at both ends",
            )
        return self.directory / f"{name}.pem"

    def has(self, name: str) -> bool:
        """Report whether a file of this name exists. Raises `UnreadableError` if that cannot be seen."""
        path = self.path(name)
        try:
            # A link that leads nowhere is a fault to report, not a missing authority to create.
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise UnreadableError(
                f"{path} cannot be inspected: {reason_of(error)}",
                "check the permissions of its folders, or name another with --state-dir",
            ) from None
        return True

    def names(self) -> tuple[str, ...]:
        """Return the names of all authorities, sorted."""
        found = (path.stem for path in self.directory.glob("*.pem"))
        return tuple(sorted(name for name in found if _NAME_PATTERN.fullmatch(name)))

    def load(self, name: str) -> Authority:
        """Read the authority of this name; raises what `Authority.load` raises."""
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
        """Return the authority of this name; create it if it is missing.

        `constraints` apply to a new authority: an existing one keeps its own. `rules` and `profile` are their
        origin, for hints. Raises `ContentError` if the authority has expired, or lacks requested constraints.
        """
        path = self.path(name)
        if not self.has(name):
            made = self._write(name, now, constraints, replace=False)
            if made is not None:
                return made
        # If another process created the file first, its authority is the one to use.
        authority = Authority.load(path)
        is_bound = constraints is not None or authority.constraints is not None
        cure = rotate_command(path, constrain=is_bound, rules=rules, profile=profile)
        if not authority.is_valid_at(now):
            raise ContentError(
                f"the certificate authority in {path} has expired, or the clock is wrong",
                f"make a new one with `{cure}`, then have clients trust it",
            )
        # An unconstrained key on disk would silently be stronger than the option promises.
        if constraints is not None and authority.constraints is None:
            raise ContentError(
                f"the certificate authority in {path} signs for every host,"
                " but --ca-constrain asks for a constrained one",
                f"make a new one with `{cure}`, then have clients trust it",
            )
        return authority

    def rotate(self, name: str, now: int, constraints: Constraints | None = None) -> Authority:
        """Replace the authority by a new one with a new key; the old key is lost."""
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
