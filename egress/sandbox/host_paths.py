"""Opens files and folders of the host for copying in or out.

The path may lead through a folder that a sandbox writes, or that came with a repository: a link there leads
to whatever its author wants read or written. So such links are refused, as for mounts, and the judged path is
the opened one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egress.errors import UnreadableError
from egress.runtime.safe_path import ResolvedPath, resolve_path


@contextmanager
def open_host_path(path: Path) -> Iterator[ResolvedPath]:
    """Resolve a path, and hold its folders. Raises `UnreadableError` for an untrusted link, and `OSError`."""
    with resolve_path(path.absolute()) as way:
        link = way.untrusted_link()
        if link is not None:
            raise UnreadableError(
                f"{path} goes through the link {link.place}, which leads out of its folder",
                f"name {way.end} itself to use it",
            )
        yield way
