"""Requests of git that somebody asks about: `push acme/app refs/heads/x` as the bytes that git would send.

    fetch REPOSITORY
    push REPOSITORY [create|update|force|delete] REF... [-o OPTION]...

A word holds for the refs behind it. Without one a ref is updated by a fast-forward.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal

from egress.inspect.git.endpoint import FETCH, PUSH, Service
from egress.inspect.git.git_kind import REQUEST_TYPES
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.git.push_request import PACK_SIGNATURE, is_push_option
from egress.inspect.git.ref_name import is_ref_name
from egress.rules.language.report import MeaningError

ASKED_GIT_HINT: Final = "write it as in `push acme/app refs/heads/x` or `fetch acme/app`"

_Change = Literal["create", "update", "force", "delete"]
_CHANGES: Final[dict[str, _Change]] = {
    "create": "create",
    "update": "update",
    "force": "force",
    "delete": "delete",
}
_ZERO: Final = "0" * 40
_OLD: Final = hashlib.sha1(b"old", usedforsecurity=False).hexdigest()
_TREE: Final = hashlib.sha1(b"tree", usedforsecurity=False).hexdigest()
_WHO: Final = "egress <egress@localhost> 0 +0000"
_PACK_VERSION: Final = 2
_COMMIT_TYPE: Final = 1


@dataclass(frozen=True, slots=True)
class AskedGit:
    """A request of git: its target below the host, its headers and its body."""

    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(slots=True)
class _Push:
    changes: list[tuple[_Change, str]] = field(default_factory=list)
    options: list[str] = field(default_factory=list)


def asked_git(text: str) -> AskedGit:
    """Read what somebody asks about; raises MeaningError."""
    match text.split():
        case ["fetch", repository]:
            return _asked(repository, FETCH, FLUSH_PKT)
        case ["push", repository, *words] if words:
            return _asked(repository, PUSH, _push_body(_read_push(words)))
        case _:
            raise MeaningError("this is no request of git", ASKED_GIT_HINT)


def _asked(repository: str, service: Service, body: bytes) -> AskedGit:
    path = repository.rstrip("/").removesuffix(".git")
    # A test at the top of a file names the host as well.
    target = path if "://" in path else "/" + path.lstrip("/")
    return AskedGit(f"{target}/{service}", (("content-type", REQUEST_TYPES[service]),), body)


def _read_push(words: list[str]) -> _Push:
    push, change = _Push(), _CHANGES["update"]
    rest = iter(words)
    for word in rest:
        if word == "-o":
            option = next(rest, "")
            if not is_push_option(option):
                raise MeaningError("an option follows -o", ASKED_GIT_HINT)
            push.options.append(option)
        elif word in _CHANGES:
            change = _CHANGES[word]
        elif is_ref_name(word):
            push.changes.append((change, word))
        else:
            raise MeaningError("this is not the full name of a ref", ASKED_GIT_HINT)
    if not push.changes:
        raise MeaningError("the push moves no ref", ASKED_GIT_HINT)
    return push


def _push_body(push: _Push) -> bytes:
    following = _commit(_OLD)
    new = hashlib.sha1(b"commit %d\0" % len(following) + following, usedforsecurity=False).hexdigest()
    other = hashlib.sha1(b"other", usedforsecurity=False).hexdigest()
    ids = {"create": (_ZERO, new), "update": (_OLD, new), "force": (_OLD, other), "delete": (_OLD, _ZERO)}
    lines = [f"{' '.join(ids[change])} {ref}".encode() for change, ref in push.changes]
    lines[0] += b"\0report-status" + b" push-options" * bool(push.options)
    body = b"".join(map(pkt_line, lines)) + FLUSH_PKT
    if push.options:
        body += b"".join(pkt_line(option.encode()) for option in push.options) + FLUSH_PKT
    return body if all(change == "delete" for change, _ in push.changes) else body + _pack(following)


def _commit(parent: str) -> bytes:
    lines = (f"tree {_TREE}", f"parent {parent}", f"author {_WHO}", f"committer {_WHO}", "", "")
    return "\n".join(lines).encode()


def _pack(commit: bytes) -> bytes:
    """Return a pack with one commit."""
    # Its size needs two bytes: four bits in the first, seven in the second.
    header = bytes([_COMMIT_TYPE << 4 | len(commit) & 0x0F | 0x80, len(commit) >> 4])
    data = PACK_SIGNATURE + _PACK_VERSION.to_bytes(4) + (1).to_bytes(4) + header + zlib.compress(commit)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()
