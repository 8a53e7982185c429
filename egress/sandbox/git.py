"""Clones a repository into a sandbox, with a credential that the sandbox never holds.

The URL names no user and no password: the rules inject the credential on the way. Git's messages are parsed
for the cause of a failure, and not passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from egress.runtime.argument_types import check_text, check_whole_number
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.spec import Command, ExecResult
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import (
    GitDeniedError,
    GitError,
    GitNotFoundError,
    GitUnreachableError,
    LateCommandError,
    PathExistsError,
)
from egress.sandbox.paths import Where, resolve

_GIT_VARIABLES: Final = {
    # No terminal for prompts; English messages, so that they can be parsed.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "LC_ALL": "C",
}
_NO_PROGRAM_STATUS: Final = 127
_BRANCH_PATTERN: Final = re.compile(r"[^\s~^:?*\[\\\x00-\x20\x7f-]+[^\s~^:?*\[\\\x00-\x20\x7f]*")
_COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CLONE_SCRIPT: Final = (
    'git clone "$@" >&2 || exit; for at; do :; done; git -C "$at" rev-parse HEAD 2>/dev/null; exit 0'
)

_DENIED_MESSAGES: Final = re.compile(
    r"Authentication failed|could not read (?:Username|Password)|Permission denied \("
    r"|error: 40[137]|response 40[37]"
)
_MISSING_MESSAGES: Final = re.compile(
    r"Remote branch .* not found|[Rr]epository .*not found|error: 404"
    r"|does not appear to be a git|not valid: is this"
)
_UNREACHABLE_MESSAGES: Final = re.compile(
    r"Could not resolve|Failed to connect|Connection (?:refused|reset|timed out)|error: 5\d\d|response 5\d\d"
    r"|Operation timed out|SSL|certificate"
)
_EXISTS_MESSAGE: Final = re.compile(r"already exists and is not an empty directory")


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository in a sandbox."""

    path: str
    commit: str | None
    """The checked-out commit; None for an empty repository."""


class Git:
    """Git operations that are simpler than `exec`: cloning only. For everything else use `exec`.

    >>> sandbox.git.clone("https://git.example.com/team/project", "project")  # doctest: +SKIP
    """

    def __init__(self, place: CommandRunner) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"<Git of {self._place.name!r}>"

    def clone(
        self,
        url: str,
        path: Where | None = None,
        *,
        branch: str | None = None,
        depth: int | None = None,
        timeout: float | None = 600.0,
    ) -> Clone:
        """Clone a repository over HTTPS; without `path`, into a folder named after the repository.

        The URL holds no credential: the rules inject it. Raises `SpecError` for a URL with one,
        `GitDeniedError`, `GitNotFoundError`, `GitUnreachableError`, `GitError`, and `PathExistsError` if the
        folder is not empty.

        >>> sandbox.git.clone(
        ...     "https://git.example.com/team/project", branch="main", depth=1
        ... )  # doctest: +SKIP
        Clone(path='project', commit='0b7c1f…')
        """
        target = _target(url, path)
        options = (*_branch(branch), *_depth(depth))
        # The path is resolved first, as for files: the clone must not lead out of the workspace.
        words = (*options, "--", url, resolve(self._place, target, make="above"))
        # Arguments are words after the script: no part of the URL is parsed by a shell.
        command = Command(
            argv=("/bin/sh", "-c", _CLONE_SCRIPT, "sh", *words), env=_GIT_VARIABLES, timeout=timeout
        )
        result = self._place.run(command)
        if result.exit_code:
            raise _clone_error(result, self._place.name)
        commit = result.text.strip()
        return Clone(target, commit if _COMMIT_PATTERN.fullmatch(commit) else None)


def _target(url: str, path: Where | None) -> str:
    """The folder to clone into. Raises `SpecError` for an invalid URL."""
    check_text("url", url)
    plain = url.isprintable() and " " not in url and "\\" not in url
    # An unparsable URL is not quoted: it may hold a credential.
    parts = urlsplit(url) if plain else None
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname:
        raise SpecError(
            "the url is not the address of a repository",
            "use an https:// URL; ssh does not pass the proxy",
        )
    # A credential in the URL would be stored in the clone's configuration, inside the sandbox.
    if "@" in parts.netloc:
        raise SpecError(
            "the url holds a user or a credential", "omit it: the rules inject the credential on the way"
        )
    if parts.query or parts.fragment:
        raise SpecError("the url holds a query or a fragment", "omit the part after ? or #")
    if path is not None:
        return str(path)
    name = parts.path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    if not name or name.startswith(("-", ".")):
        raise SpecError("the url does not name a folder", "pass path=")
    return name


def _branch(branch: str | None) -> tuple[str, ...]:
    if branch is None:
        return ()
    check_text("branch", branch)
    if not _BRANCH_PATTERN.fullmatch(branch):
        raise SpecError("branch is not the name of a branch or a tag", "write it as git shows it")
    return ("--branch", branch)


def _depth(depth: int | None) -> tuple[str, ...]:
    if depth is None:
        return ()
    check_whole_number("depth", depth)
    if depth < 1:
        raise SpecError("depth is out of range", "use a number from 1")
    return ("--depth", str(depth))


def _clone_error(result: ExecResult, name: str) -> Exception:
    """The cause of git's failure, in our own words: git's may hold the URL, and text of the server."""
    said = result.stderr
    if result.timed_out:
        return LateCommandError(
            f"the clone timed out after {result.duration:.0f}s",
            "raise its timeout, or set a depth",
            result=result,
        )
    if result.exit_code == _NO_PROGRAM_STATUS:
        return UnsupportedError(f"the image of the sandbox {name} has no git", "use an image with git")
    if _EXISTS_MESSAGE.search(said):
        return PathExistsError("the folder exists and is not empty", "choose another folder, or remove it")
    # Missing before denied: servers report private repositories as missing.
    if _MISSING_MESSAGES.search(said):
        return GitNotFoundError(
            "the repository or branch does not exist",
            "check its name; servers also say this of private repositories without a credential",
        )
    if _DENIED_MESSAGES.search(said):
        return GitDeniedError(
            "the server or the proxy does not let this sandbox read the repository",
            "allow the repository in the rules; `egress log query --verdict deny` shows the request",
        )
    if _UNREACHABLE_MESSAGES.search(said):
        return GitUnreachableError("the server could not be reached", "see the proxy's audit log")
    return GitError(f"git exited with status {result.exit_code}", "run `git clone` by exec to see its output")
