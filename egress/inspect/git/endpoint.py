"""The requests of git over smart HTTP: which repository, which service, and which step.

A fetch and a push have two steps each: a discovery, which lists refs, and a POST. A path without one of the
three ends below is not git's; neither is a discovery that names no service, which the old protocol sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

from egress.inspect.inspector import Unreadable

Service = Literal["git-upload-pack", "git-receive-pack"]

FETCH: Final[Service] = "git-upload-pack"
PUSH: Final[Service] = "git-receive-pack"
_DISCOVERY: Final = "/info/refs"
PATH_ENDS: Final = (_DISCOVERY, f"/{FETCH}", f"/{PUSH}")
_QUERIES: Final[dict[str, Service]] = {f"service={FETCH}": FETCH, f"service={PUSH}": PUSH}


@dataclass(frozen=True, slots=True)
class GitEndpoint:
    """One step of a fetch or a push."""

    repository: str
    """The path of the repository, decoded, without its first slash and without `.git`."""
    service: Service
    is_discovery: bool


def is_git_path(path: str) -> bool:
    """Tell whether some server may take this path for git's, whatever its case and with a slash behind it."""
    return path.lower().removesuffix("/").endswith(PATH_ENDS)


def read_endpoint(method: str, target: str) -> GitEndpoint | Unreadable:
    """Read a canonical target, path and query."""
    path, mark, query = target.partition("?")
    for end in PATH_ENDS:
        if path.endswith(end) and len(path) > len(end) + 1:
            break
    else:
        return Unreadable("git.endpoint", "the path is not one of git over smart HTTP")
    repository = path[1 : -len(end)].removesuffix(".git")
    encoded_slash = "%2f" in repository.lower()
    try:
        # Servers decode it: a rule on `acme/c++` is about `acme/c%2B%2B`, too.
        repository = unquote(repository, errors="strict")
    except UnicodeDecodeError:
        return Unreadable("git.endpoint", "the path of the repository is not UTF-8")
    if encoded_slash or not (path.startswith("/") and repository) or repository.endswith("/"):
        return Unreadable("git.endpoint", "the path names no repository")
    if end != _DISCOVERY:
        if method != "POST" or mark:
            return Unreadable("git.endpoint", "the service takes a POST without a query")
        return GitEndpoint(repository, FETCH if end.endswith(FETCH) else PUSH, is_discovery=False)
    service = _QUERIES.get(query)
    if method != "GET" or service is None:
        return Unreadable(
            "git.endpoint", "a discovery is a GET that names one service, once, and nothing else"
        )
    return GitEndpoint(repository, service, is_discovery=True)
