"""Extract the host from URLs in other tools' configuration, and nothing else.

Such URLs may contain a user name, a password or a token. The result is a canonical host name, a port and a
scheme; a URL with a doubtful host gives no result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.hosts import HostError, canonical_host
from egress.types import Scheme

MAX_URL = 2048

_LOCAL = ("localhost", "localdomain", "local")
_SCP = re.compile(r"(?:[^@/:\s]+@)?([A-Za-z0-9.-]+):(?!/)(\S+)")
_PART = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class UrlHost:
    """The host of a URL. `had_user`: the URL had a part before an `@`, which was dropped."""

    host: str
    port: int
    scheme: Scheme
    had_user: bool

    @property
    def is_standard(self) -> bool:
        return self.scheme == "https" and self.port == 443


def parse_host(url: str) -> UrlHost | None:
    """Parse an http(s) URL; return None if its host is in any doubt."""
    url = url.strip()
    # urlsplit drops tabs and line breaks, and could give another host than the tool sees.
    if len(url) > MAX_URL or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in ("https", "http"):
        return None
    # A password with a slash, ? or # ends the host too early: the real host then follows an `@`.
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return None
    host = _name(parts.hostname or "")
    if host is None:
        return None
    default = 443 if scheme == "https" else 80
    return UrlHost(host, port or default, "https" if scheme == "https" else "http", "@" in parts.netloc)


def _name(text: str) -> str | None:
    """Return a canonical host name that other machines can resolve; None for addresses and bare names."""
    try:
        name = canonical_host(text)
    except HostError:
        return None
    # A token in the place of the host would end up in a file that gets committed.
    if "." not in name or name.rpartition(".")[2] in _LOCAL or looks_like_credential(name):
        return None
    return name


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on a forge: `github.com` and `acme/widgets`."""

    host: str
    path: str


def parse_repository(url: str) -> Repository | None:
    """Parse a git remote in https, ssh or scp-like form; return None for anything else."""
    url = url.strip()
    if len(url) > MAX_URL or not url.isprintable():
        return None
    match = None if "://" in url else _SCP.fullmatch(url)
    if match is not None:
        return _repository(match[1], match[2])
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # A query or a fragment has no place in a remote, and may carry a token.
    if parts.scheme not in ("https", "http", "ssh", "git") or parts.query or parts.fragment:
        return None
    return _repository(parts.hostname or "", parts.path)


def _repository(host: str, path: str) -> Repository | None:
    name = _name(host)
    parts = path.strip("/").removesuffix(".git").split("/")
    if name is None or len(parts) < 2 or not all(_is_part(part) for part in parts):
        return None
    return Repository(name, "/".join(parts))


def _is_part(text: str) -> bool:
    return bool(_PART.fullmatch(text)) and text not in (".", "..") and not looks_like_credential(text)
