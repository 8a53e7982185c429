"""Files and folders of the host that a person names, to be copied in or out.

The path can lead through a folder that a sandbox writes, or that a repository brought: a link there leads to
whatever its maker wants read, or written. So such links are refused, as they are for what is mounted, and
what was judged is what is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egress.errors import UnreadableError
from egress.runtime.safe_path import ResolvedPath, resolve_path


@contextmanager
def open_host_path(path: Path) -> Iterator[ResolvedPath]:
    """Go to where a path leads, and hold it. Raises `UnreadableError` for a strange link, and `OSError`."""
    with resolve_path(path.absolute()) as way:
        link = way.untrusted_link()
        if link is not None:
            raise UnreadableError(
                f"{path} is reached by the link {link.place}, which leads out of its folder",
                f"name {way.end} itself, if that is meant",
            )
        yield way
