"""Noticing that rule files have changed, however they were changed.

Theory of operation. What counts is a *fingerprint*: what `stat` says of every file, with its links
followed, and of every folder's contents. It is taken at least every two seconds, which works on every file
system and sees renames, new files, and links that are swapped. The kernel's notices about the folders
around the files only make it quicker; where there are none, nothing but speed is lost.

It says *that* something has changed, never what, and reads no file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

POLL_INTERVAL = 2.0
"""Seconds between two looks when nothing is noticed."""
SETTLE_SECONDS = 0.2
"""Seconds in which further changes are taken for one with the first."""

Fingerprint = tuple[object, ...]


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """Return a value that is another one after a change of the files. Never raises `OSError`."""
    return tuple(_of(path) for path in paths)


def folders(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders in which a change can change the rules: around each path, and around its target."""
    found = []
    for path in paths:
        whole = path.absolute()
        target = _resolved(whole)
        found += [whole.parent, target.parent, *([whole] if whole.is_dir() else [])]
    return tuple(folder for folder in dict.fromkeys(found) if folder.is_dir())


async def changes(
    paths: Sequence[Path],
    seen: Fingerprint | None = None,
    *,
    interval: float = POLL_INTERVAL,
    settle: float = SETTLE_SECONDS,
) -> AsyncIterator[None]:
    """Yield after every change of these files, for ever; several close together are one.

    `seen` is the fingerprint from before they were read: without it what changes until now goes unnoticed.
    """
    now = await asyncio.to_thread(fingerprint, paths)
    if seen is not None and seen != now:
        yield
    seen = now
    while True:
        watched = await asyncio.to_thread(folders, paths)
        async with aclosing(_notices(watched, interval, settle)) as notices:
            async for _ in notices:
                found = await asyncio.to_thread(fingerprint, paths)
                if found == seen:
                    continue
                seen = found
                yield
                if await asyncio.to_thread(folders, paths) != watched:
                    break


async def _notices(watched: Sequence[Path], interval: float, settle: float) -> AsyncGenerator[None]:
    """Yield whenever it is worth looking."""
    # Imported once the proxy serves: sandboxes wait for its start, and nothing waits for the first notice.
    import watchfiles  # noqa: PLC0415

    try:
        found = watchfiles.awatch(
            *watched,
            watch_filter=None,
            recursive=False,
            debounce=int(settle * 1000),
            rust_timeout=int(interval * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with aclosing(found) as rounds:
            async for _ in rounds:
                yield
    except (OSError, RuntimeError):
        # The machine gives no notices, or no more of them.
        pass
    while True:
        await asyncio.sleep(interval)
        yield


def _of(path: Path) -> Fingerprint:
    if not path.is_dir():
        return (_status(path),)
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))  # noqa: PTH208 - names
    except OSError as error:
        return (error.errno,)
    return tuple((name, _status(path / name)) for name in names)


def _status(path: Path) -> Fingerprint:
    try:
        status = path.stat()
    except OSError as error:
        return (error.errno,)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path
